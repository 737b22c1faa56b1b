/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/client/fake.h"

#include "base/error.h"

/* What the node would say: real messages, built and read by the real codec. */

static void answer_send(fake_message_t *message, kvl_msg_type_t type, kvl_wbuf_t *w)
{
    kvl_call_t *call = message->call;
    kvl_msg_head_t head;
    kvl_rbuf_t body;
    size_t length = kvl_wbuf_finish(w, type, 1, KVL_OK);

    REQUIRE(call != NULL);
    REQUIRE(kvl_wire_open(&body, w->data, length, &head) == KVL_OK);
    if (call->answer(call, &head, &body)) {
        kvl_list_remove(&call->link);
        message->call = NULL;
    }
}

void fake_refuse(fake_message_t *message, kvl_status_t status)
{
    kvl_msg_head_t head = {.type = KVL_MSG_REFUSE, .status = status};
    kvl_call_t *call    = message->call;

    message->call = NULL;
    kvl_list_remove(&call->link);
    kvl_error(status, "fake:1: because the test wants it");
    call->answer(call, &head, NULL);
}

static kvl_wire_lease_t lease_of(const fake_message_t *message, unsigned item)
{
    (void)message;
    return (kvl_wire_lease_t){
        .id = 100 + item, .generation = 5, .region = 7, .offset = item * 4096};
}

void fake_reserved(fake_message_t *message, kvl_status_t status)
{
    uint8_t buffer[KVL_WIRE_MAX];
    kvl_wbuf_t w;
    unsigned i;

    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    for (i = 0; i < message->count; i++) {
        kvl_reserved_t item = {.index = (uint16_t)i, .status = status};

        if (status == KVL_OK && !message->items[i].has_inline) {
            item.lease = lease_of(message, i);
        }
        CHECK(kvl_put_reserved(&w, &item));
    }
    answer_send(message, KVL_MSG_RESERVED, &w);
}

void fake_reserved_one(fake_message_t *message, unsigned item, kvl_status_t status,
                       const kvl_wire_lease_t *lease)
{
    kvl_reserved_t reserved = {.index = (uint16_t)item, .status = status};
    uint8_t buffer[256];
    kvl_wbuf_t w;

    if (status == KVL_OK) {
        reserved.lease = lease ? *lease : lease_of(message, item);
    }
    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    CHECK(kvl_put_reserved(&w, &reserved));
    answer_send(message, KVL_MSG_RESERVED, &w);
}

void fake_found(fake_message_t *message, kvl_status_t status, uint64_t length)
{
    uint8_t buffer[KVL_WIRE_MAX];
    kvl_wbuf_t w;
    unsigned i;

    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    for (i = 0; i < message->count; i++) {
        kvl_found_t item = {.index = (uint16_t)i, .status = status};

        if (status == KVL_OK) {
            item.length = length;
            item.lease  = lease_of(message, i);
        }
        CHECK(kvl_put_found(&w, &item));
    }
    answer_send(message, KVL_MSG_FOUND, &w);
}

void fake_found_one(fake_message_t *message, unsigned item, const kvl_found_t *found)
{
    kvl_found_t out = *found;
    uint8_t buffer[16384];
    kvl_wbuf_t w;

    out.index = (uint16_t)item;
    if (out.status == KVL_OK && !out.has_inline && !out.lease.id) {
        out.lease = lease_of(message, item);
    }
    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    CHECK(kvl_put_found(&w, &out));
    answer_send(message, KVL_MSG_FOUND, &w);
}

void fake_answered(fake_message_t *message, kvl_msg_type_t type, kvl_status_t status)
{
    uint8_t buffer[KVL_WIRE_MAX];
    kvl_wbuf_t w;
    unsigned i;

    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    for (i = 0; i < message->count; i++) {
        kvl_answer_t item = {.index = (uint16_t)i, .status = status};

        CHECK(kvl_put_answer(&w, &item));
    }
    answer_send(message, type, &w);
}

void fake_answered_one(fake_message_t *message, kvl_msg_type_t type, unsigned index,
                       kvl_status_t status, uint64_t length)
{
    kvl_answer_t item = {.index = (uint16_t)index, .status = status, .length = length};
    uint8_t buffer[256];
    kvl_wbuf_t w;

    kvl_wbuf_init(&w, buffer, sizeof(buffer));
    CHECK(kvl_put_answer(&w, &item));
    answer_send(message, type, &w);
}
