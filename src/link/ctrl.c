/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "base/log.h"
#include "link/private.h"

/* With several rails the ctrl lane does not go with the rail that it happens to use. When its endpoint
 * fails, or the port below it goes down, the endpoint is closed by force; another is opened over the next
 * rail that works and says RESUME with the number of the last message that came. The peer answers with its
 * own, and both send again what the other has not got (stream.c): so requests, commits among them, are
 * acted on exactly once, calls get their answers, and nobody above hears of it.
 *
 * If no rail takes it over in time, or the peer has no such session any more, the link fails. */

#define MOVE_MAX    (5 * KVL_SECOND)
#define ATTEMPT_MAX KVL_SECOND
#define LOOK_PAUSE  (50 * KVL_MS)

void kvl_ctrl_lost(kvl_link_t *link, kvl_status_t status, const char *why)
{
    kvl_link_ctrl_t *ctrl = &link->ctrl;

    if (!link->several || link->state != KVL_LINK_UP) {
        kvl_link_fail(link, status, "%s: %s", link->address, why);
    } else if (!ctrl->lost && ctrl->state != KVL_CTRL_CLOSING) {
        ctrl->lost = true;
        snprintf(ctrl->cause, sizeof(ctrl->cause), "%s", why);
    }
}

/* ---- moving ---- */

static void ctrl_timer_over(kvl_timer_t *timer)
{
    kvl_link_t *link = kvl_container(timer, kvl_link_t, ctrl.timer);

    if (link->ctrl.state == KVL_CTRL_RESUMING) {
        kvl_ctrl_lost(link, KVL_ERR_PEER, "no answer to RESUME");
    }
}

static void ctrl_timer_set(kvl_link_t *link, int64_t time_ns)
{
    kvl_timers_t *timers = kvl_engine_timers(link->engine);

    if (kvl_timer_set(timers, &link->ctrl.timer, kvl_time_add(kvl_now_ns(), time_ns), ctrl_timer_over) !=
        KVL_OK) {
        kvl_link_fail(link, KVL_ERR_NO_MEMORY, "%s: out of memory", link->address);
    }
}

static void ctrl_close(kvl_link_t *link)
{
    kvl_link_ctrl_t *ctrl = &link->ctrl;

    ctrl->lost = false;
    if (ctrl->state == KVL_CTRL_HERE) {
        kvl_warn("link %s: the ctrl lane leaves rail %s: %s", link->address,
                 kvl_engine_rail_name(link->engine, link->lines[0].endpoint.rail), ctrl->cause);
        ctrl->end_ns = kvl_time_add(kvl_now_ns(), MOVE_MAX);
        kvl_stream_hold(&ctrl->stream);
    }
    kvl_timer_cancel(kvl_engine_timers(link->engine), &ctrl->timer);
    kvl_line_close(&link->lines[0]);
    ctrl->state = KVL_CTRL_CLOSING;
}

/* the next rail that is up, the last one at last; NULL: none now */
static const kvl_pair_t *ctrl_way(const kvl_link_t *link)
{
    unsigned i;

    for (i = 1; i <= link->pair_count; i++) {
        const kvl_pair_t *pair = &link->pairs[(link->lines[0].endpoint.rail + i) % link->pair_count];

        if (pair->state == KVL_PAIR_UP && !pair->failed && pair->addr.length &&
            kvl_engine_rail_is_up(link->engine, pair->rail)) {
            return pair;
        }
    }
    return NULL;
}

static kvl_status_t resume_send(kvl_link_t *link)
{
    kvl_wire_resume_t resume = {link->terms.session, link->ctrl.stream.received};
    kvl_sendbuf_t *buf       = kvl_sendbuf_get(&link->pool, KVL_WIRE_HEAD_SIZE);
    kvl_status_t status;

    if (!buf) {
        return KVL_ERR_NO_MEMORY;
    }
    kvl_put_resume(&buf->writer, &resume);
    status = kvl_sendbuf_send(buf, &link->lines[0].endpoint, KVL_AM_CTRL, KVL_MSG_RESUME,
                              ++link->last_request, KVL_OK);
    return status < 0 ? status : KVL_OK;
}

static void ctrl_open(kvl_link_t *link, const kvl_pair_t *pair)
{
    kvl_line_t *line = &link->lines[0];

    kvl_link_keep_line(link, line);
    kvl_ep_destroy(line->endpoint.ep);
    *line = (kvl_line_t){.ready = false};
    kvl_line_init(link, line, KVL_LANE_CTRL, pair->rail, 0);
    link->ctrl.state = KVL_CTRL_RESUMING;
    ctrl_timer_set(link, ATTEMPT_MAX);
    if (kvl_line_open(link, line, &pair->addr) != KVL_OK || resume_send(link) != KVL_OK) {
        kvl_ctrl_lost(link, KVL_ERR_PEER, kvl_error_text());
    }
}

unsigned kvl_ctrl_step(kvl_link_t *link)
{
    kvl_link_ctrl_t *ctrl = &link->ctrl;
    kvl_line_t *line      = &link->lines[0];
    const kvl_pair_t *pair;

    if (ctrl->lost) {
        ctrl_close(link);
        return 1;
    }
    if (ctrl->state != KVL_CTRL_CLOSING || !line->closed ||
        (line->endpoint.ep && kvl_ep_pending(line->endpoint.ep)) || kvl_timer_armed(&ctrl->timer)) {
        return 0;
    }
    if (kvl_now_ns() >= ctrl->end_ns) {
        kvl_link_fail(link, KVL_ERR_PEER, "%s: no other rail took over the ctrl lane (%s)", link->address,
                      ctrl->cause);
        return 1;
    }
    pair = ctrl_way(link);
    if (pair) {
        ctrl_open(link, pair);
    } else {
        ctrl_timer_set(link, LOOK_PAUSE);
    }
    return 1;
}

void kvl_ctrl_end(kvl_link_t *link)
{
    link->ctrl.state = KVL_CTRL_HERE;
    link->ctrl.lost  = false;
    kvl_timer_cancel(kvl_engine_timers(link->engine), &link->ctrl.timer);
    kvl_stream_drop(&link->ctrl.stream);
}

/* ---- what comes ---- */

static void resume_read(kvl_link_t *link, const kvl_am_t *am)
{
    kvl_link_ctrl_t *ctrl = &link->ctrl;
    char text[KVL_WIRE_TEXT_MAX + 1];
    kvl_wire_resume_t answer;
    kvl_msg_head_t head;
    kvl_rbuf_t body;

    if (!am->data || kvl_wire_open(&body, am->data, am->length, &head) != KVL_OK) {
        kvl_link_protocol_error(link, "a damaged answer to RESUME");
        return;
    }
    if (head.type == KVL_MSG_REFUSE && kvl_get_text(&body, text) == KVL_OK) {
        kvl_link_fail(link, KVL_ERR_PEER, "%s: the ctrl lane was lost (%s), and: %s", link->address, ctrl->cause,
                      text);
        return;
    }
    if (head.type != KVL_MSG_RESUME_OK || kvl_get_resume(&body, &answer) != KVL_OK ||
        kvl_wire_close(&body) != KVL_OK || answer.session != link->terms.session) {
        kvl_link_protocol_error(link, "an answer to RESUME that does not fit");
        return;
    }
    kvl_timer_cancel(kvl_engine_timers(link->engine), &ctrl->timer);
    ctrl->state = KVL_CTRL_HERE;
    ctrl->moves++;
    kvl_info("link %s: the ctrl lane is on rail %s now", link->address,
             kvl_engine_rail_name(link->engine, link->lines[0].endpoint.rail));
    if (kvl_stream_resume(&ctrl->stream, &link->lines[0].endpoint, answer.received) != KVL_OK) {
        kvl_link_protocol_error(link, kvl_error_text());
    }
}

void kvl_ctrl_heard(kvl_link_t *link, const kvl_am_t *am)
{
    kvl_link_ctrl_t *ctrl = &link->ctrl;

    if (ctrl->state == KVL_CTRL_CLOSING) {
        return; /* it comes again */
    }
    if (ctrl->state == KVL_CTRL_RESUMING) {
        resume_read(link, am);
        return;
    }
    switch (kvl_stream_take(&ctrl->stream, am)) {
    case KVL_STREAM_EMPTY:
        return;
    case KVL_STREAM_WRONG:
        kvl_link_protocol_error(link, kvl_error_text());
        return;
    case KVL_STREAM_NEXT:
    default:
        kvl_link_answered(link, am);
    }
    if (!link->failed) {
        kvl_stream_confirm(&ctrl->stream, &link->pool, &link->lines[0].endpoint);
    }
}
