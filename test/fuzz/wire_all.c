/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire_all.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    kvl_rbuf_t r;
    kvl_wbuf_t w;
    bool exact;
} pass_t;

typedef struct {
    kvl_status_t (*body)(pass_t *pass);
    kvl_status_t (*item)(pass_t *pass);
    kvl_status_t (*end)(pass_t *pass);
} codec_t;

/* reads what a decoder points at, so that a sanitizer sees a pointer that leaves the message */
static void touch(const uint8_t *bytes, uint64_t length)
{
    static volatile uint8_t sink;
    uint64_t i;

    for (i = 0; i < length; i++) {
        sink = sink ^ bytes[i];
    }
}

/* a '?' may stand for any unprintable byte */
static void text_seen(pass_t *pass, const char *text)
{
    if (strchr(text, '?')) {
        pass->exact = false;
    }
}

static kvl_status_t hello_body(pass_t *pass)
{
    kvl_hello_t m;
    kvl_status_t st = kvl_get_hello(&pass->r, &m);

    if (st == KVL_OK) {
        text_seen(pass, m.name);
        if (m.version_max > KVL_WIRE_VERSION) {
            pass->exact = false;
        }
        kvl_put_hello(&pass->w, &m);
    }
    return st;
}

static kvl_status_t hello_ok_body(pass_t *pass)
{
    kvl_hello_ok_t m;
    kvl_status_t st = kvl_get_hello_ok(&pass->r, &m);

    if (st == KVL_OK) {
        text_seen(pass, m.name);
        kvl_put_hello_ok(&pass->w, &m);
    }
    return st;
}

static kvl_status_t region_item(pass_t *pass)
{
    kvl_wire_region_t m;
    kvl_status_t st = kvl_get_region(&pass->r, &m);

    if (st == KVL_OK) {
        touch(m.rkey, m.rkey_length);
        kvl_put_region(&pass->w, &m);
    }
    return st;
}

static kvl_status_t text_body(pass_t *pass)
{
    char text[KVL_WIRE_TEXT_MAX + 1];
    kvl_status_t st = kvl_get_text(&pass->r, text);

    if (st == KVL_OK) {
        text_seen(pass, text);
        kvl_put_text(&pass->w, text);
    }
    return st;
}

static kvl_status_t ep_hello_body(pass_t *pass)
{
    kvl_ep_hello_t m;
    kvl_status_t st = kvl_get_ep_hello(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_ep_hello(&pass->w, &m);
    }
    return st;
}

static kvl_status_t selftest_body(pass_t *pass)
{
    kvl_selftest_t m;
    kvl_status_t st = kvl_get_selftest(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_selftest(&pass->w, &m);
    }
    return st;
}

static kvl_status_t ttl_body(pass_t *pass)
{
    uint32_t ttl_ms;
    kvl_status_t st = kvl_get_ttl(&pass->r, &ttl_ms);

    if (st == KVL_OK) {
        kvl_put_ttl(&pass->w, ttl_ms);
    }
    return st;
}

static kvl_status_t reserve_item(pass_t *pass)
{
    kvl_reserve_t m;
    kvl_status_t st = kvl_get_reserve(&pass->r, &m);

    if (st == KVL_OK) {
        touch(m.key.data, m.key.length);
        touch(m.bytes, m.has_inline ? m.length : 0);
        kvl_put_reserve(&pass->w, &m);
    }
    return st;
}

static kvl_status_t reserved_item(pass_t *pass)
{
    kvl_reserved_t m;
    kvl_status_t st = kvl_get_reserved(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_reserved(&pass->w, &m);
    }
    return st;
}

static kvl_status_t lookup_item(pass_t *pass)
{
    kvl_lookup_t m;
    kvl_status_t st = kvl_get_lookup(&pass->r, &m);

    if (st == KVL_OK) {
        touch(m.key.data, m.key.length);
        kvl_put_lookup(&pass->w, &m);
    }
    return st;
}

static kvl_status_t found_item(pass_t *pass)
{
    kvl_found_t m;
    kvl_status_t st = kvl_get_found(&pass->r, &m);

    if (st == KVL_OK) {
        touch(m.bytes, m.has_inline ? m.length : 0);
        kvl_put_found(&pass->w, &m);
    }
    return st;
}

static kvl_status_t commit_item(pass_t *pass)
{
    kvl_commit_t m;
    kvl_status_t st = kvl_get_commit(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_commit(&pass->w, &m);
    }
    return st;
}

static kvl_status_t answer_item(pass_t *pass)
{
    kvl_answer_t m;
    kvl_status_t st = kvl_get_answer(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_answer(&pass->w, &m);
    }
    return st;
}

static kvl_status_t stats_body(pass_t *pass)
{
    uint64_t values[KVL_WIRE_STATS];
    size_t count;
    kvl_status_t st = kvl_get_stats(&pass->r, values, &count);

    if (st == KVL_OK) {
        kvl_put_stats(&pass->w, values, count);
    }
    return st;
}

static kvl_status_t xfer_fin_body(pass_t *pass)
{
    kvl_xfer_fin_t m;
    kvl_status_t st = kvl_get_xfer_fin(&pass->r, &m);

    if (st == KVL_OK) {
        touch(m.notification, m.notification_length);
        kvl_put_xfer_fin(&pass->w, &m);
    }
    return st;
}

static kvl_status_t peer_rails_end(pass_t *pass)
{
    kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX];
    unsigned count  = 0, i;
    kvl_status_t st = kvl_get_peer_rails(&pass->r, rails, &count);

    for (i = 0; st == KVL_OK && i < count; i++) {
        text_seen(pass, rails[i].name);
    }
    if (st == KVL_OK) {
        kvl_put_peer_rails(&pass->w, rails, count);
    }
    return st;
}

static kvl_status_t rail_body(pass_t *pass)
{
    kvl_wire_rail_t m;
    kvl_status_t st = kvl_get_rail(&pass->r, &m);

    if (st == KVL_OK) {
        text_seen(pass, m.name);
        kvl_put_rail(&pass->w, &m);
    }
    return st;
}

static kvl_status_t resume_body(pass_t *pass)
{
    kvl_wire_resume_t m;
    kvl_status_t st = kvl_get_resume(&pass->r, &m);

    if (st == KVL_OK) {
        kvl_put_resume(&pass->w, &m);
    }
    return st;
}

static const codec_t codecs[KVL_MSG_LAST + 1] = {
    [KVL_MSG_HELLO]       = {hello_body, NULL, NULL},
    [KVL_MSG_HELLO_OK]    = {hello_ok_body, region_item, peer_rails_end},
    [KVL_MSG_REFUSE]      = {text_body, NULL, NULL},
    [KVL_MSG_EP_HELLO]    = {ep_hello_body, NULL, NULL},
    [KVL_MSG_EP_OK]       = {ep_hello_body, NULL, NULL},
    [KVL_MSG_SELFTEST]    = {selftest_body, NULL, NULL},
    [KVL_MSG_SELFTEST_OK] = {selftest_body, NULL, NULL},
    [KVL_MSG_RESERVE]     = {ttl_body, reserve_item, NULL},
    [KVL_MSG_RESERVED]    = {NULL, reserved_item, NULL},
    [KVL_MSG_LOOKUP]      = {ttl_body, lookup_item, NULL},
    [KVL_MSG_FOUND]       = {NULL, found_item, NULL},
    [KVL_MSG_COMMIT]      = {NULL, commit_item, NULL},
    [KVL_MSG_COMMITTED]   = {NULL, answer_item, NULL},
    [KVL_MSG_RELEASE]     = {NULL, commit_item, NULL},
    [KVL_MSG_ABORT]       = {NULL, commit_item, NULL},
    [KVL_MSG_EXISTS]      = {NULL, lookup_item, NULL},
    [KVL_MSG_EXISTS_OK]   = {NULL, answer_item, NULL},
    [KVL_MSG_REMOVE]      = {NULL, lookup_item, NULL},
    [KVL_MSG_REMOVED]     = {NULL, answer_item, NULL},
    [KVL_MSG_STAT_OK]     = {stats_body, NULL, NULL},
    [KVL_MSG_XFER_FIN]    = {xfer_fin_body, NULL, NULL},
    [KVL_MSG_XFER_OK]     = {NULL, answer_item, NULL},
    [KVL_MSG_RAIL]        = {rail_body, NULL, NULL},
    [KVL_MSG_RAIL_OK]     = {rail_body, region_item, NULL},
    [KVL_MSG_RESUME]      = {resume_body, NULL, NULL},
    [KVL_MSG_RESUME_OK]   = {resume_body, NULL, NULL},
};

static kvl_status_t pass_run(pass_t *pass, const codec_t *codec)
{
    kvl_status_t st = codec->body ? codec->body(pass) : KVL_OK;

    while (st == KVL_OK && codec->item && pass->r.left > 0) {
        st = codec->item(pass);
    }
    if (st == KVL_OK && codec->end) {
        st = codec->end(pass);
    }
    return st == KVL_OK ? kvl_wire_close(&pass->r) : st;
}

kvl_status_t wire_all_message(const void *data, size_t size, void *again, size_t *again_p,
                              bool *exact_p)
{
    pass_t pass = {.exact = true};
    kvl_msg_head_t head;
    kvl_status_t st = kvl_wire_open(&pass.r, data, size, &head);

    if (st != KVL_OK) {
        return st;
    }
    kvl_wbuf_init(&pass.w, again, size);
    st = pass_run(&pass, &codecs[head.type]);
    if (st != KVL_OK) {
        return st;
    }
    *again_p = kvl_wbuf_finish(&pass.w, (kvl_msg_type_t)head.type, head.request,
                               (kvl_status_t)head.status);
    *exact_p = pass.exact;
    return KVL_OK;
}

static void must(bool good)
{
    if (!good) {
        abort();
    }
}

static int check_message(const void *data, size_t size)
{
    uint8_t *again = malloc(size ? size : 1);
    size_t length  = 0;
    bool exact     = false;
    int accepted   = wire_all_message(data, size, again, &length, &exact) == KVL_OK;

    if (accepted && exact) {
        must(length == size && memcmp(again, data, size) == 0);
    } else if (accepted) {
        must(length > 0 && length <= size);
    }
    free(again);
    return accepted;
}

static int check_data_head(const void *data, size_t size)
{
    uint8_t again[KVL_DATA_HEAD_MAX];
    kvl_data_head_t m;

    if (kvl_get_data_head(data, size, &m) != KVL_OK) {
        return 0;
    }
    kvl_put_data_head(again, &m);
    for (unsigned i = 0; i < m.ranges; i++) {
        kvl_wire_range_t range = kvl_get_data_range(&m, i);

        kvl_put_data_range(again, i, &range);
    }
    must(size == (size_t)KVL_DATA_HEAD_SIZE + m.ranges * (size_t)KVL_WIRE_RANGE_SIZE && memcmp(again, data, size) == 0);
    return 1;
}

static int check_blob(const void *data, size_t size)
{
    uint8_t *again = malloc(size ? size : 1);
    kvl_region_blob_t m;
    int accepted = kvl_get_region_blob(data, size, &m) == KVL_OK;

    if (accepted) {
        for (size_t i = 0; i < m.count; i++) {
            touch(m.slices[i].rkey, m.slices[i].rkey_length);
        }
        must(kvl_put_region_blob(again, size, &m) == size && memcmp(again, data, size) == 0);
    }
    free(again);
    return accepted;
}

int wire_all_check(const void *data, size_t size)
{
    return check_message(data, size) + check_data_head(data, size) + check_blob(data, size);
}
