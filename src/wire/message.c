/* SPDX-License-Identifier: BSD-3-Clause */
/* The head, 24 bytes: magic 2, version 1, type 1, count 2, zero 2, request 8, status 4, body 4. */
#include "base/error.h"
#include "wire/cursor.h"

#include <string.h>

/* Messages that must be understood before a version was agreed: always sent as version 1. */
#define VERSION_FIRST 1

enum {
    ITEMS  = 1, /* items follow, as many as the head counts */
    ANSWER = 2, /* the head may carry a status */
    OPEN   = 4  /* version VERSION_FIRST */
};

typedef struct {
    const char *name;
    unsigned flags;
} message_row_t;

static const message_row_t message_rows[KVL_MSG_LAST + 1] = {
    [KVL_MSG_HELLO]       = {"hello", OPEN},
    [KVL_MSG_HELLO_OK]    = {"hello_ok", ANSWER | ITEMS},
    [KVL_MSG_REFUSE]      = {"refuse", ANSWER | OPEN},
    [KVL_MSG_EP_HELLO]    = {"ep_hello", 0},
    [KVL_MSG_EP_OK]       = {"ep_ok", ANSWER},
    [KVL_MSG_SELFTEST]    = {"selftest", 0},
    [KVL_MSG_SELFTEST_OK] = {"selftest_ok", ANSWER},
    [KVL_MSG_PING]        = {"ping", 0},
    [KVL_MSG_PONG]        = {"pong", ANSWER},
    [KVL_MSG_BYE]         = {"bye", 0},
    [KVL_MSG_BYE_OK]      = {"bye_ok", ANSWER},
    [KVL_MSG_RESERVE]     = {"reserve", ITEMS},
    [KVL_MSG_RESERVED]    = {"reserved", ITEMS | ANSWER},
    [KVL_MSG_LOOKUP]      = {"lookup", ITEMS},
    [KVL_MSG_FOUND]       = {"found", ITEMS | ANSWER},
    [KVL_MSG_COMMIT]      = {"commit", ITEMS},
    [KVL_MSG_COMMITTED]   = {"committed", ITEMS | ANSWER},
    [KVL_MSG_RELEASE]     = {"release", ITEMS},
    [KVL_MSG_ABORT]       = {"abort", ITEMS},
    [KVL_MSG_EXISTS]      = {"exists", ITEMS},
    [KVL_MSG_EXISTS_OK]   = {"exists_ok", ITEMS | ANSWER},
    [KVL_MSG_REMOVE]      = {"remove", ITEMS},
    [KVL_MSG_REMOVED]     = {"removed", ITEMS | ANSWER},
    [KVL_MSG_STAT]        = {"stat", 0},
    [KVL_MSG_STAT_OK]     = {"stat_ok", ANSWER},
    [KVL_MSG_XFER_FIN]    = {"xfer_fin", 0},
    [KVL_MSG_XFER_OK]     = {"xfer_ok", ANSWER | ITEMS}, /* one: how it ended */
    [KVL_MSG_RAIL]        = {"rail", 0},
    [KVL_MSG_RAIL_OK]     = {"rail_ok", ANSWER | ITEMS},
    [KVL_MSG_RESUME]      = {"resume", 0},
    [KVL_MSG_RESUME_OK]   = {"resume_ok", ANSWER},
    [KVL_MSG_RECEIVED]    = {"received", 0},
};

static bool message_known(unsigned type)
{
    return type <= KVL_MSG_LAST && message_rows[type].name;
}

static size_t message_max(unsigned type)
{
    return type == KVL_MSG_XFER_FIN ? KVL_WIRE_NOTIFY_MAX : KVL_WIRE_MAX;
}

const char *kvl_msg_name(unsigned type)
{
    return message_known(type) ? message_rows[type].name : "unknown";
}

void kvl_wbuf_init(kvl_wbuf_t *w, void *data, size_t size)
{
    *w = (kvl_wbuf_t){.data = data, .size = size, .used = KVL_WIRE_HEAD_SIZE};
    if (size < KVL_WIRE_HEAD_SIZE) {
        w->used     = size;
        w->overflow = true;
    }
}

size_t kvl_wbuf_room(const kvl_wbuf_t *w)
{
    return w->size - w->used;
}

static uint64_t message_version(unsigned type)
{
    return message_rows[type].flags & OPEN ? VERSION_FIRST : KVL_WIRE_VERSION;
}

size_t kvl_wbuf_finish(kvl_wbuf_t *w, kvl_msg_type_t type, uint64_t request, kvl_status_t status)
{
    kvl_wbuf_t head = {.data = w->data, .size = KVL_WIRE_HEAD_SIZE};

    if (w->overflow || w->used > message_max(type)) {
        return 0;
    }
    kvl_wr_uint(&head, KVL_WIRE_MAGIC, 2);
    kvl_wr_uint(&head, message_version(type), 1);
    kvl_wr_uint(&head, type, 1);
    kvl_wr_uint(&head, w->count, 2);
    kvl_wr_uint(&head, 0, 2);
    kvl_wr_uint(&head, request, 8);
    kvl_wr_uint(&head, (uint32_t)status, 4);
    kvl_wr_uint(&head, w->used - KVL_WIRE_HEAD_SIZE, 4);
    return w->used;
}

static void head_check_items(kvl_rbuf_t *r, const kvl_msg_head_t *head)
{
    if (head->count > KVL_WIRE_ITEMS_MAX) {
        kvl_rd_fault(r, "count", "over the most items of a message");
    }
    if (head->count > 0 && !(message_rows[head->type].flags & ITEMS)) {
        kvl_rd_fault(r, "count", "not 0 in a message without items");
    }
}

static void head_check(kvl_rbuf_t *r, const kvl_msg_head_t *head)
{
    if (!message_known(head->type)) {
        kvl_rd_fault(r, "type", "unknown");
        return;
    }
    r->message = message_rows[head->type].name;
    head_check_items(r, head);
    if (head->status != 0 && !(message_rows[head->type].flags & ANSWER)) {
        kvl_rd_fault(r, "status", "not 0 in a message that is no answer");
    }
    if (head->body != r->size - KVL_WIRE_HEAD_SIZE) {
        kvl_rd_fault(r, "body", "differs from the length of the message");
    }
    if (r->size > message_max(head->type)) {
        kvl_rd_fault(r, "body", "over the longest message");
    }
}

/* magic and version, which say how to read the rest */
static kvl_status_t head_open(kvl_rbuf_t *r, kvl_msg_head_t *head)
{
    if (kvl_rd_uint(r, 2, "magic") != KVL_WIRE_MAGIC) {
        kvl_rd_fault(r, "magic", "not a message of kvlane");
    }
    head->version = (uint8_t)kvl_rd_uint(r, 1, "version");
    if (!r->fault_field &&
        (head->version < KVL_WIRE_VERSION_MIN || head->version > KVL_WIRE_VERSION)) {
        return kvl_error(KVL_ERR_VERSION, "message: version %u; this side knows %u to %u",
                         head->version, KVL_WIRE_VERSION_MIN, KVL_WIRE_VERSION);
    }
    return kvl_rd_end(r);
}

kvl_status_t kvl_wire_open(kvl_rbuf_t *r, const void *data, size_t length, kvl_msg_head_t *head_p)
{
    kvl_rbuf_t reader = {.data = data, .size = length, .message = "head"};
    kvl_msg_head_t head;
    kvl_status_t st = head_open(&reader, &head);

    if (st != KVL_OK) {
        return st;
    }
    head.type  = (uint8_t)kvl_rd_uint(&reader, 1, "type");
    head.count = (uint16_t)kvl_rd_uint(&reader, 2, "count");
    if (kvl_rd_uint(&reader, 2, "reserved") != 0) {
        kvl_rd_fault(&reader, "reserved", "not 0");
    }
    head.request = kvl_rd_uint(&reader, 8, "request");
    head.status  = kvl_rd_status(&reader, "status");
    head.body    = (uint32_t)kvl_rd_uint(&reader, 4, "body");
    head_check(&reader, &head);
    st = kvl_rd_end(&reader);
    if (st != KVL_OK) {
        return st;
    }
    reader.left = head.count;
    *r          = reader;
    *head_p     = head;
    return KVL_OK;
}

kvl_status_t kvl_wire_close(const kvl_rbuf_t *r)
{
    kvl_rbuf_t reader = *r;

    if (r->left > 0) {
        kvl_rd_fault(&reader, "count", "more items than were read");
    }
    if (r->at != r->size) {
        kvl_rd_fault(&reader, "body", "bytes left over at the end");
    }
    return kvl_rd_end(&reader);
}
