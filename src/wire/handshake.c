/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/cursor.h"

#include <assert.h>
#include <string.h>

#define HELLO_SIZE                                                                                 \
    (2 * 1 + 8 + 3 * 2 + 2 * 1 + 2 * 4 + 2 * 8 + 16 + 2)          /* without name and retired */
#define HELLO_OK_SIZE (1 + 8 + 3 * 2 + 2 * 4 + 2 * 8 + 4 + 8 + 4) /* without name */
#define EP_HELLO_SIZE (8 + 1 + 2)
#define SELFTEST_SIZE (1 + 8 + 4 + 8)

#define HELLO_RETIRED_MAX (sizeof(((kvl_hello_t *)0)->retired) / sizeof(uint64_t))

bool kvl_put_hello(kvl_wbuf_t *w, const kvl_hello_t *m)
{
    uint16_t i;

    assert(m->retired_count <= HELLO_RETIRED_MAX);
    if (!kvl_wr_body(w, HELLO_SIZE + kvl_wr_text_size(m->name) + m->retired_count * 8u)) {
        return false;
    }
    kvl_wr_uint(w, m->version_min, 1);
    kvl_wr_uint(w, m->version_max, 1);
    kvl_wr_uint(w, m->nonce, 8);
    kvl_wr_uint(w, m->depth, 2);
    kvl_wr_uint(w, m->sg_endpoints, 2);
    kvl_wr_uint(w, m->data_depth, 2);
    kvl_wr_uint(w, m->mode, 1);
    kvl_wr_uint(w, m->transport, 1);
    kvl_wr_uint(w, m->inline_max, 4);
    kvl_wr_uint(w, m->pid, 4);
    kvl_wr_uint(w, m->pid_start, 8);
    kvl_wr_uint(w, m->pid_ns, 8);
    kvl_wr_bytes(w, m->boot_id, sizeof(m->boot_id));
    kvl_wr_text(w, m->name);
    kvl_wr_uint(w, m->retired_count, 2);
    for (i = 0; i < m->retired_count; i++) {
        kvl_wr_uint(w, m->retired[i], 8);
    }
    return true;
}

static void hello_read_limits(kvl_rbuf_t *r, kvl_hello_t *m)
{
    m->version_min = (uint8_t)kvl_rd_uint(r, 1, "version_min");
    m->version_max = (uint8_t)kvl_rd_uint(r, 1, "version_max");
    if (m->version_min < 1 || m->version_min > m->version_max) {
        kvl_rd_fault(r, "version_min", "0, or above version_max");
    }
    m->nonce = kvl_rd_uint(r, 8, "nonce");
    m->depth = (uint16_t)kvl_rd_uint(r, 2, "depth");
    if (m->depth < 1) {
        kvl_rd_fault(r, "depth", "0");
    }
    m->sg_endpoints = (uint16_t)kvl_rd_uint(r, 2, "sg_endpoints");
    m->data_depth   = (uint16_t)kvl_rd_uint(r, 2, "data_depth");
    m->mode         = (uint8_t)kvl_rd_uint(r, 1, "mode");
    if (m->mode > 2) {
        kvl_rd_fault(r, "mode", "unknown");
    }
    m->transport  = kvl_rd_bool(r, "transport");
    m->inline_max = (uint32_t)kvl_rd_uint(r, 4, "inline_max");
}

static void hello_read_identity(kvl_rbuf_t *r, kvl_hello_t *m)
{
    const uint8_t *boot_id;

    m->pid       = (uint32_t)kvl_rd_uint(r, 4, "pid");
    m->pid_start = kvl_rd_uint(r, 8, "pid_start");
    m->pid_ns    = kvl_rd_uint(r, 8, "pid_ns");
    boot_id      = kvl_rd_bytes(r, sizeof(m->boot_id), "boot_id");
    if (boot_id) {
        memcpy(m->boot_id, boot_id, sizeof(m->boot_id));
    }
    kvl_rd_text(r, m->name, "name");
}

static void hello_read_retired(kvl_rbuf_t *r, kvl_hello_t *m)
{
    uint16_t i;

    m->retired_count = (uint16_t)kvl_rd_uint(r, 2, "retired_count");
    if (m->retired_count > HELLO_RETIRED_MAX) {
        kvl_rd_fault(r, "retired_count", "over 16");
        m->retired_count = 0;
    }
    for (i = 0; i < m->retired_count; i++) {
        m->retired[i] = kvl_rd_uint(r, 8, "retired");
    }
}

kvl_status_t kvl_get_hello(kvl_rbuf_t *r, kvl_hello_t *m)
{
    kvl_hello_t hello;

    memset(&hello, 0, sizeof(hello));
    hello_read_limits(r, &hello);
    hello_read_identity(r, &hello);
    hello_read_retired(r, &hello);
    if (!r->fault_field) {
        *m = hello;
        /* what a newer version appended is not for us */
        r->at = hello.version_max > KVL_WIRE_VERSION ? r->size : r->at;
    }
    return kvl_rd_end(r);
}

bool kvl_put_hello_ok(kvl_wbuf_t *w, const kvl_hello_ok_t *m)
{
    if (!kvl_wr_body(w, HELLO_OK_SIZE + kvl_wr_text_size(m->name))) {
        return false;
    }
    kvl_wr_uint(w, m->version, 1);
    kvl_wr_uint(w, m->session, 8);
    kvl_wr_uint(w, m->depth, 2);
    kvl_wr_uint(w, m->sg_endpoints, 2);
    kvl_wr_uint(w, m->data_depth, 2);
    kvl_wr_uint(w, m->inline_max, 4);
    kvl_wr_uint(w, m->lease_max_ms, 4);
    kvl_wr_uint(w, m->chunk_bytes, 8);
    kvl_wr_uint(w, m->value_max, 8);
    kvl_wr_uint(w, m->scratch_region, 4);
    kvl_wr_uint(w, m->scratch_offset, 8);
    kvl_wr_uint(w, m->scratch_length, 4);
    kvl_wr_text(w, m->name);
    return true;
}

static void hello_ok_read(kvl_rbuf_t *r, kvl_hello_ok_t *m)
{
    m->version        = (uint8_t)kvl_rd_uint(r, 1, "version");
    m->session        = kvl_rd_uint(r, 8, "session");
    m->depth          = (uint16_t)kvl_rd_uint(r, 2, "depth");
    m->sg_endpoints   = (uint16_t)kvl_rd_uint(r, 2, "sg_endpoints");
    m->data_depth     = (uint16_t)kvl_rd_uint(r, 2, "data_depth");
    m->inline_max     = (uint32_t)kvl_rd_uint(r, 4, "inline_max");
    m->lease_max_ms   = (uint32_t)kvl_rd_uint(r, 4, "lease_max_ms");
    m->chunk_bytes    = kvl_rd_uint(r, 8, "chunk_bytes");
    m->value_max      = kvl_rd_uint(r, 8, "value_max");
    m->scratch_region = (uint32_t)kvl_rd_uint(r, 4, "scratch_region");
    m->scratch_offset = kvl_rd_uint(r, 8, "scratch_offset");
    m->scratch_length = (uint32_t)kvl_rd_uint(r, 4, "scratch_length");
    kvl_rd_text(r, m->name, "name");
}

kvl_status_t kvl_get_hello_ok(kvl_rbuf_t *r, kvl_hello_ok_t *m)
{
    kvl_hello_ok_t ok;

    memset(&ok, 0, sizeof(ok));
    hello_ok_read(r, &ok);
    if (ok.version < KVL_WIRE_VERSION_MIN || ok.version > KVL_WIRE_VERSION) {
        kvl_rd_fault(r, "version", "not one that was offered");
    }
    if (ok.depth < 1) {
        kvl_rd_fault(r, "depth", "0");
    }
    if (ok.chunk_bytes < 1) {
        kvl_rd_fault(r, "chunk_bytes", "0");
    }
    if (r->left > KVL_WIRE_REGIONS_MAX) {
        kvl_rd_fault(r, "count", "over the most regions");
    }
    if (!r->fault_field) {
        *m = ok;
    }
    return kvl_rd_end(r);
}

bool kvl_put_text(kvl_wbuf_t *w, const char *text)
{
    if (!kvl_wr_body(w, kvl_wr_text_size(text))) {
        return false;
    }
    kvl_wr_text(w, text);
    return true;
}

kvl_status_t kvl_get_text(kvl_rbuf_t *r, char text[KVL_WIRE_TEXT_MAX + 1])
{
    char copy[KVL_WIRE_TEXT_MAX + 1];

    kvl_rd_text(r, copy, "text");
    if (!r->fault_field) {
        memcpy(text, copy, strlen(copy) + 1);
    }
    return kvl_rd_end(r);
}

bool kvl_put_ep_hello(kvl_wbuf_t *w, const kvl_ep_hello_t *m)
{
    if (!kvl_wr_body(w, EP_HELLO_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->session, 8);
    kvl_wr_uint(w, m->lane, 1);
    kvl_wr_uint(w, m->index, 2);
    return true;
}

kvl_status_t kvl_get_ep_hello(kvl_rbuf_t *r, kvl_ep_hello_t *m)
{
    kvl_ep_hello_t hello = {0};

    hello.session = kvl_rd_uint(r, 8, "session");
    hello.lane    = (uint8_t)kvl_rd_uint(r, 1, "lane");
    if (hello.lane < 1 || hello.lane > 2) {
        kvl_rd_fault(r, "lane", "neither data nor sg");
    }
    hello.index = (uint16_t)kvl_rd_uint(r, 2, "index");
    if (!r->fault_field) {
        *m = hello;
    }
    return kvl_rd_end(r);
}

bool kvl_put_selftest(kvl_wbuf_t *w, const kvl_selftest_t *m)
{
    if (!kvl_wr_body(w, SELFTEST_SIZE)) {
        return false;
    }
    kvl_wr_uint(w, m->step, 1);
    kvl_wr_uint(w, m->seed, 8);
    kvl_wr_uint(w, m->length, 4);
    kvl_wr_uint(w, m->hash, 8);
    return true;
}

kvl_status_t kvl_get_selftest(kvl_rbuf_t *r, kvl_selftest_t *m)
{
    kvl_selftest_t test = {0};

    test.step   = kvl_rd_bool(r, "step");
    test.seed   = kvl_rd_uint(r, 8, "seed");
    test.length = (uint32_t)kvl_rd_uint(r, 4, "length");
    test.hash   = kvl_rd_uint(r, 8, "hash");
    if (!r->fault_field) {
        *m = test;
    }
    return kvl_rd_end(r);
}
