/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/lane/transport.h"
#include "link/stream.h"
#include "shim/shim.h"

#include <string.h>

/* Two ends of a ctrl stream over endpoints that break: whatever is lost on the way, each message is acted
 * on once, in order, at both ends. */

#define ON_WAY 256

typedef struct {
    kvl_req_t *req;
    uint8_t head[KVL_STREAM_HEAD_SIZE], bytes[64];
    size_t length;
    bool done; /* its sender heard that it was sent */
} message_t;

typedef struct {
    kvl_stream_t stream;
    kvl_sendpool_t pool;
    kvl_endpoint_t *endpoint;
    message_t way[ON_WAY]; /* from this end, not arrived */
    size_t way_count;
    uint64_t said, heard; /* the last request that was sent here; that was acted on here */
    unsigned ended;       /* messages that ended, as their sender heard */
} end_t;

static end_t ends[2];
static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static kvl_status_t ctrl_post(kvl_ep_t *ep, const kvl_am_send_t *send, kvl_req_t *req)
{
    end_t *end         = ep == ends[0].endpoint->ep ? &ends[0] : &ends[1];
    message_t *message = &end->way[end->way_count++];

    REQUIRE(end->way_count < ON_WAY && send->iov_count == 1);
    CHECK_EQ(send->header_length, KVL_STREAM_HEAD_SIZE);
    *message = (message_t){.req = req, .length = send->iov->length};
    REQUIRE(message->length <= sizeof(message->bytes));
    memcpy(message->head, send->header, sizeof(message->head));
    memcpy(message->bytes, send->iov->address, message->length);
    return KVL_INPROGRESS;
}

static void endpoints_open(void)
{
    fake_start();
    fake.ctrl        = ctrl_post;
    ends[0].endpoint = fake_endpoint(KVL_LANE_CTRL, 0);
    ends[1].endpoint = fake_endpoint(KVL_LANE_CTRL, 0);
}

static void start(uint64_t seed)
{
    unsigned i;

    memset(ends, 0, sizeof(ends));
    state = seed;
    endpoints_open();
    for (i = 0; i < 2; i++) {
        kvl_stream_init(&ends[i].stream);
        kvl_sendpool_init(&ends[i].pool, 200);
    }
    ends[0].stream.on = true;
}

static void ended(void *arg, kvl_endpoint_t *endpoint, kvl_status_t status)
{
    (void)endpoint;
    CHECK_EQ(status, KVL_OK);
    ((end_t *)arg)->ended++;
}

static void say(end_t *end)
{
    kvl_sendbuf_t *buf = kvl_sendbuf_get(&end->pool, KVL_WIRE_HEAD_SIZE);

    REQUIRE(buf != NULL);
    buf->sent = ended;
    buf->arg  = end;
    CHECK_EQ(kvl_stream_send(&end->stream, buf, end->endpoint, KVL_MSG_PING, ++end->said, KVL_OK),
             KVL_INPROGRESS);
}

static void sent(message_t *message, kvl_status_t status)
{
    if (!message->done) {
        message->done = true;
        message->req->done(message->req, status);
    }
}

static void arrive(end_t *from, end_t *to)
{
    message_t message = from->way[0];
    kvl_am_t am       = {.id            = KVL_AM_CTRL,
                         .header        = message.head,
                         .header_length = sizeof(message.head),
                         .data          = message.bytes,
                         .length        = message.length};
    kvl_msg_head_t head;
    kvl_rbuf_t body;

    memmove(from->way, from->way + 1, --from->way_count * sizeof(message));
    sent(&message, KVL_OK);
    if (kvl_stream_take(&to->stream, &am) == KVL_STREAM_NEXT) {
        REQUIRE(kvl_wire_open(&body, message.bytes, message.length, &head) == KVL_OK);
        CHECK_EQ(head.request, to->heard + 1);
        to->heard = head.request;
        kvl_stream_confirm(&to->stream, &to->pool, to->endpoint);
    }
}

/* all that is on its way is lost, and both ends meet again over new endpoints */
static void breaks(void)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        kvl_stream_hold(&ends[i].stream);
        ends[i].endpoint->failed = true;
        while (ends[i].way_count) {
            sent(&ends[i].way[--ends[i].way_count], KVL_ERR_CANCELED);
        }
    }
    if (chance(2)) {
        say(&ends[chance(2)]); /* what is said meanwhile waits */
    }
    endpoints_open();
    for (i = 0; i < 2; i++) {
        CHECK_EQ(kvl_stream_resume(&ends[i].stream, ends[i].endpoint, ends[!i].stream.received), KVL_OK);
    }
}

static void finish(void)
{
    unsigned i;

    while (ends[0].way_count || ends[1].way_count) {
        for (i = 0; i < 2; i++) {
            if (ends[i].way_count) {
                arrive(&ends[i], &ends[!i]);
            }
        }
    }
    for (i = 0; i < 2; i++) {
        CHECK_EQ(ends[i].heard, ends[!i].said);
        kvl_stream_drop(&ends[i].stream);
        CHECK_EQ(ends[i].ended, ends[i].said);
        CHECK_EQ(ends[i].pool.busy_count, 0);
        kvl_sendpool_cleanup(&ends[i].pool);
    }
}

TEST(stream_resume, loses_nothing_and_repeats_nothing_whatever_breaks)
{
    unsigned seed, step;

    for (seed = 1; seed <= 300; seed++) {
        start(seed * 7919);
        for (step = 0; step < 200; step++) {
            end_t *end = &ends[step ? chance(2) : 0];

            switch (step ? chance(8) : 0) {
            case 0:
            case 1:
            case 2:
                if (end->stream.on && end->pool.busy_count < 100) {
                    say(end);
                }
                break;
            case 3:
                if (end->way_count) { /* UCX is done with it before it arrives */
                    sent(&end->way[chance(end->way_count)], KVL_OK);
                }
                break;
            case 4:
                if (ends[1].stream.on && chance(4) == 0) {
                    breaks();
                }
                break;
            default:
                if (end->way_count) {
                    arrive(end, &ends[end == &ends[0]]);
                }
            }
        }
        finish();
    }
}

TEST(stream_confirm, frees_what_the_other_side_has_without_an_answer)
{
    unsigned i;

    start(1);
    for (i = 0; i < 100; i++) {
        say(&ends[0]);
        arrive(&ends[0], &ends[1]);
        while (ends[1].way_count) {
            arrive(&ends[1], &ends[0]);
        }
        CHECK(ends[0].pool.busy_count <= 8);
    }
    finish();
}

TEST(stream_take, refuses_numbers_that_cannot_be)
{
    uint8_t head[KVL_STREAM_HEAD_SIZE];
    kvl_am_t am = {.header = head, .header_length = sizeof(head)};
    static const struct {
        kvl_stream_head_t head;
        kvl_stream_take_t take;
    } rows[] = {{{1, 0}, KVL_STREAM_NEXT},  {{1, 0}, KVL_STREAM_WRONG}, {{3, 0}, KVL_STREAM_WRONG},
                {{2, 1}, KVL_STREAM_WRONG}, {{0, 0}, KVL_STREAM_EMPTY}, {{2, 0}, KVL_STREAM_NEXT}};
    size_t i;

    start(1);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kvl_put_stream_head(head, &rows[i].head);
        CHECK_EQ(kvl_stream_take(&ends[1].stream, &am), rows[i].take);
    }
    am.header_length = 0; /* once numbered, always numbered */
    CHECK_EQ(kvl_stream_take(&ends[1].stream, &am), KVL_STREAM_WRONG);
    CHECK_EQ(kvl_stream_resume(&ends[1].stream, ends[1].endpoint, 1), KVL_ERR_PROTOCOL);
    finish();
}
