/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* A link and a mover that do nothing by themselves: they note what the client asks for. */

struct kvl_link {
    fake_t *fake;
    const kvl_link_ops_t *ops;
    void *arg;
    kvl_link_state_t state;
    kvl_list_t calls;
    kvl_wbuf_t writer;
    uint8_t buffer[KVL_WIRE_MAX];
    uint64_t last_request;
};

static fake_t *stage;
static const kvl_remote_region_t remote = {.id = 7, .length = 1u << 20};

kvl_engine_t *fake_engine_create(fake_t *fake);
void fake_engine_destroy(kvl_engine_t *engine);

/* ---- link ---- */

kvl_status_t kvl_link_create(const kvl_link_params_t *params, kvl_link_t **link_p)
{
    kvl_link_t *link = calloc(1, sizeof(*link));

    link->fake  = stage;
    link->ops   = params->ops;
    link->arg   = params->arg;
    link->state = KVL_LINK_IDLE;
    kvl_list_init(&link->calls);
    *link_p = link;
    return KVL_OK;
}

void kvl_link_close(kvl_link_t *link, void (*closed)(kvl_link_t *, void *), void *arg)
{
    while (!kvl_list_empty(&link->calls)) { /* orphans of batches that gave up */
        kvl_call_t *call    = kvl_container(link->calls.next, kvl_call_t, link);
        kvl_msg_head_t head = {.status = KVL_ERR_CANCELED};

        link->state = KVL_LINK_RESETTING;
        kvl_list_remove(&call->link);
        call->answer(call, &head, NULL);
    }
    link->state = KVL_LINK_CLOSED;
    closed(link, arg);
}

void kvl_link_destroy(kvl_link_t *link)
{
    free(link);
}

kvl_link_state_t kvl_link_state(const kvl_link_t *link)
{
    return link->state;
}

kvl_status_t kvl_link_want(kvl_link_t *link)
{
    if (link->state == KVL_LINK_DOWN) {
        return kvl_error(link->fake->refuse, "nobody there");
    }
    if (link->state == KVL_LINK_IDLE) {
        link->state = KVL_LINK_CONNECTING;
    }
    return link->state == KVL_LINK_UP ? KVL_OK : KVL_INPROGRESS;
}

const char *kvl_link_state_name(kvl_link_state_t state)
{
    (void)state;
    return "fake";
}

const char *kvl_link_cause(const kvl_link_t *link)
{
    (void)link;
    return "nobody there";
}

const char *kvl_link_address(const kvl_link_t *link)
{
    (void)link;
    return "fake:1";
}

const kvl_hello_ok_t *kvl_link_terms(const kvl_link_t *link)
{
    return &link->fake->terms;
}

kvl_mover_t *kvl_link_mover(kvl_link_t *link)
{
    return (kvl_mover_t *)link;
}

const kvl_remote_region_t *kvl_link_region(const kvl_link_t *link, uint32_t id)
{
    (void)link;
    return id == remote.id ? &remote : NULL;
}

void kvl_link_info(const kvl_link_t *link, char transport[64], kvl_mode_t *put_p, kvl_mode_t *get_p)
{
    (void)link;
    strcpy(transport, "fake");
    *put_p = *get_p = KVL_MODE_IS_MESSAGE;
}

void kvl_link_rail_stat(const kvl_link_t *link, unsigned rail, kvl_rail_stat_t *stat_p)
{
    (void)link;
    CHECK_EQ(rail, 0);
    *stat_p = (kvl_rail_stat_t){.name = "fake"};
}

void kvl_link_protocol_error(kvl_link_t *link, const char *what)
{
    CHECK(what[0]);
    link->fake->protocol_errors++;
}

void kvl_link_reset(kvl_link_t *link, const char *why)
{
    CHECK(why[0]);
    link->fake->resets++;
}

/* ---- calls ---- */

kvl_wbuf_t *kvl_link_call_begin(kvl_link_t *link)
{
    CHECK(link->state == KVL_LINK_UP);
    kvl_wbuf_init(&link->writer, link->buffer, sizeof(link->buffer));
    return &link->writer;
}

void kvl_link_call_drop(kvl_link_t *link)
{
    (void)link;
}

void kvl_link_call_end(kvl_link_t *link, kvl_call_t *call)
{
    fake_t *fake = link->fake;
    unsigned i;

    kvl_list_remove(&call->link);
    for (i = fake->first; i < fake->first + fake->count; i++) {
        if (fake->messages[i % FAKE_MESSAGES].call == call) {
            fake->messages[i % FAKE_MESSAGES].call = NULL;
        }
    }
}

static void message_item(fake_message_t *message, kvl_rbuf_t *body, unsigned i)
{
    kvl_reserve_t reserve = {0};
    kvl_lookup_t lookup   = {0};
    kvl_commit_t commit   = {0};

    switch (message->type) {
    case KVL_MSG_RESERVE:
        CHECK_EQ(kvl_get_reserve(body, &reserve), KVL_OK);
        lookup.index                 = reserve.index;
        lookup.key                   = reserve.key;
        message->items[i].length     = reserve.length;
        message->items[i].has_inline = reserve.has_inline;
        memcpy(message->items[i].bytes, reserve.bytes ? reserve.bytes : (const uint8_t *)"",
               reserve.bytes ? (reserve.length < 16 ? reserve.length : 16) : 1);
        break;
    case KVL_MSG_COMMIT:
    case KVL_MSG_RELEASE:
    case KVL_MSG_ABORT:
        CHECK_EQ(kvl_get_commit(body, &commit), KVL_OK);
        lookup.index                 = commit.index;
        message->items[i].length     = commit.length;
        message->items[i].lease      = commit.lease;
        message->items[i].generation = commit.generation;
        message->items[i].ops        = commit.ops;
        break;
    default:
        CHECK_EQ(kvl_get_lookup(body, &lookup), KVL_OK);
    }
    message->items[i].index      = lookup.index;
    message->items[i].key_length = lookup.key.length;
    memcpy(message->items[i].key, lookup.key.data ? lookup.key.data : (const uint8_t *)"",
           lookup.key.length);
}

static void message_decode(fake_message_t *message, const void *data, size_t length)
{
    kvl_msg_head_t head;
    kvl_rbuf_t body;
    unsigned i;

    CHECK_EQ(kvl_wire_open(&body, data, length, &head), KVL_OK);
    message->type  = head.type;
    message->count = head.count;
    free(message->items); /* of a message long taken */
    message->items = calloc(head.count + 1u, sizeof(*message->items));
    if (head.type == KVL_MSG_RESERVE || head.type == KVL_MSG_LOOKUP) {
        CHECK_EQ(kvl_get_ttl(&body, &message->ttl_ms), KVL_OK);
    }
    for (i = 0; i < head.count; i++) {
        message_item(message, &body, i);
    }
    CHECK_EQ(kvl_wire_close(&body), KVL_OK);
}

kvl_status_t kvl_link_call_send(kvl_link_t *link, kvl_msg_type_t type, kvl_call_t *call,
                                int64_t deadline_ns)
{
    fake_t *fake            = link->fake;
    fake_message_t *message = &fake->messages[(fake->first + fake->count) % FAKE_MESSAGES];
    size_t length           = kvl_wbuf_finish(&link->writer, type, ++link->last_request, KVL_OK);

    CHECK(deadline_ns > fake_now_ns);
    if (fake->send_failures) {
        fake->send_failures--;
        return KVL_ERR_RAIL;
    }
    REQUIRE(fake->count < FAKE_MESSAGES);
    message_decode(message, link->buffer, length);
    fake->count++;
    message->call = call;
    if (call) {
        call->owner     = link;
        call->sent_once = true;
        kvl_list_push_back(&link->calls, &call->link);
    }
    return KVL_INPROGRESS;
}

/* ---- mover ---- */

void kvl_flow_init(kvl_flow_t *flow)
{
    memset(flow, 0, sizeof(*flow)); /* nobody uses it here */
}

void kvl_mover_submit(kvl_mover_t *mover, kvl_flow_t *flow, kvl_move_t *move)
{
    fake_t *fake = ((kvl_link_t *)mover)->fake;

    (void)flow;
    REQUIRE(fake->move_count < FAKE_MOVES);
    CHECK_EQ(move->pieces[0].remote_offset, move->value_offset);
    move->ops_total                 = 1;
    fake->moves[fake->move_count++] = move;
}

void kvl_mover_cancel(kvl_mover_t *mover, kvl_move_t *move, kvl_status_t status)
{
    ((kvl_link_t *)mover)->fake->canceled_moves++;
    move->status = status;
}

bool kvl_move_busy(const kvl_move_t *move)
{
    (void)move;
    return stage->moves_busy;
}

void fake_moved(fake_t *fake, kvl_status_t status)
{
    kvl_move_t *move = fake->moves[0];

    REQUIRE(fake->move_count > 0);
    fake->move_count--;
    memmove(fake->moves, fake->moves + 1, fake->move_count * sizeof(fake->moves[0]));
    move->done(move, status);
}

/* ---- the stage ---- */

fake_t *fake_open(bool up)
{
    fake_t *fake = stage = calloc(1, sizeof(*fake));

    fake->memory   = calloc(1, 1u << 20);
    fake->engine   = fake_engine_create(fake);
    fake->settings = (kvl_settings_t){.timeout_ns = 30 * KVL_SECOND, .quiesce_ns = 20 * KVL_MS};
    fake->terms    = (kvl_hello_ok_t){
           .depth = 4, .inline_max = 64, .lease_max_ms = 60000, .value_max = 1u << 20};
    fake->refuse = KVL_ERR_UNREACHABLE;
    fake->region = (kvl_region_t){
        .engine = fake->engine, .id = 1, .address = fake->memory, .length = 1u << 20};
    REQUIRE(kvl_cache_create(fake->engine, "fake:1", &fake->cache) == KVL_OK);
    if (up) {
        fake_up(fake);
    }
    return fake;
}

void fake_close(fake_t *fake)
{
    unsigned i;

    kvl_cache_destroy(fake->cache);
    CHECK_EQ(atomic_load(&fake->region.users), 0);
    for (i = 0; i < FAKE_MESSAGES; i++) {
        free(fake->messages[i].items);
    }
    fake_engine_destroy(fake->engine);
    free(fake->memory);
    free(fake);
}

void fake_up(fake_t *fake)
{
    kvl_link_t *link = fake->cache->link;

    link->state = KVL_LINK_UP;
    link->ops->up(link, link->arg);
}

void fake_down(fake_t *fake, kvl_status_t status)
{
    kvl_link_t *link    = fake->cache->link;
    kvl_msg_head_t head = {.status = status};

    link->state = KVL_LINK_RESETTING;
    while (fake->move_count) {
        fake_moved(fake, status);
    }
    while (!kvl_list_empty(&link->calls)) {
        kvl_call_t *call = kvl_container(link->calls.next, kvl_call_t, link);

        kvl_link_call_end(link, call);
        call->answer(call, &head, NULL);
    }
    link->state = status == KVL_ERR_CANCELED ? KVL_LINK_IDLE : KVL_LINK_DOWN;
    link->ops->down(link, status, "the peer is gone", link->arg);
}

kvl_batch_t *fake_submit(fake_t *fake, kvl_cache_op_t op, size_t count, size_t length,
                         int64_t timeout_ms)
{
    static char keys[FAKE_ITEMS][8];
    static kvl_segment_t segments[FAKE_ITEMS];
    static kvl_item_t items[FAKE_ITEMS];
    kvl_batch_params_t params = {.timeout_ms = timeout_ms};
    kvl_batch_t *batch        = NULL;
    size_t i;

    REQUIRE(count <= FAKE_ITEMS);
    for (i = 0; i < count; i++) {
        segments[i] = (kvl_segment_t){.address = fake->memory + (i * length) % (512u << 10),
                                      .length  = length};
        items[i]    = (kvl_item_t){.key           = keys[i],
                                   .key_length    = (size_t)snprintf(keys[i], 8, "k%zu", i),
                                   .segments      = length ? &segments[i] : NULL,
                                   .segment_count = length ? 1 : 0};
    }
    CHECK_EQ(kvl_cache_submit(fake->cache, op, items, count, &params, &batch), KVL_INPROGRESS);
    REQUIRE(batch != NULL);
    fake_turn(fake);
    return batch;
}

fake_message_t *fake_take(fake_t *fake, kvl_msg_type_t type)
{
    fake_message_t *message = &fake->messages[fake->first % FAKE_MESSAGES];

    REQUIRE(fake->count > 0);
    CHECK_STR_EQ(kvl_msg_name(message->type), kvl_msg_name(type));
    fake->first++;
    fake->count--;
    return message;
}
