/* SPDX-License-Identifier: BSD-3-Clause */
#include <kvlane/node.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "node/private.h"
#include "node/room.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/random.h>

/* A node from create to destroy. It owns its engine: whoever progresses that drives the node. Memory is
 * registered before anybody can connect, and is given back after the last session is closed.
 *
 *     serving -> draining -> drained
 *
 * Draining: no new sessions, no new leases. A session is closed as soon as it holds no lease, all of
 * them when the time is over. */

#define HUGE_PAGE   (UINT64_C(2) << 20)
#define SMALL_PAGE  UINT64_C(4096)
#define HUGE_FROM   (UINT64_C(64) << 20) /* memory above is cut at huge pages */
#define SCRATCH_MAX (UINT64_C(64) << 10) /* of a session */
#define SCRATCH_MIN UINT64_C(4096)
#define DRAIN_STEP  (5 * KVL_MS)

/* ---- work of the engine ---- */

static void expiry_due(kvl_timer_t *timer)
{
    kvl_node_t *node = kvl_container(timer, kvl_node_t, expiry);

    kvl_store_expire(node->store, kvl_engine_now(node->engine));
    kvl_node_arm(node);
}

void kvl_node_arm(kvl_node_t *node)
{
    int64_t next = kvl_store_next_expiry(node->store);

    /* a timer that comes too early finds nothing and moves on: cheaper than moving it all the time */
    if (next != KVL_TIME_MAX && (!kvl_timer_armed(&node->expiry) || node->expiry.at_ns > next)) {
        (void)kvl_timer_set(kvl_engine_timers(node->engine), &node->expiry, next, expiry_due);
    }
}

static void store_decided(kvl_holder_t *holder, void *arg)
{
    kvl_client_t *client = kvl_container(holder, kvl_client_t, holder);
    kvl_node_t *node     = arg;

    if (kvl_list_empty(&client->answering)) {
        kvl_list_push_back(&node->answering, &client->answering);
    }
}

static void store_hung(kvl_holder_t *holder, void *arg)
{
    (void)arg;
    kvl_session_close(kvl_container(holder, kvl_client_t, holder)->session,
                      "a lease expired: the client hangs");
}

static unsigned node_poll(kvl_poller_t *poller)
{
    kvl_node_t *node = kvl_container(poller, kvl_node_t, poller);
    kvl_list_t *link;
    unsigned n = 0;

    while ((link = kvl_list_pop_front(&node->answering)) != NULL) {
        n += kvl_node_answer(kvl_container(link, kvl_client_t, answering));
    }
    return n;
}

/* ---- draining ---- */

static void drain_done(void *arg)
{
    kvl_node_t *node = arg;

    kvl_timer_cancel(kvl_engine_timers(node->engine), &node->drain_timer);
    kvl_info("node %s: drained", node->address);
    atomic_store_explicit(&node->drained, 1, memory_order_release);
    kvl_engine_notify(node->engine, false);
}

/* sessions that hold nothing go now; the timer also brings the server to its deadline */
static void drain_step(kvl_timer_t *timer)
{
    kvl_node_t *node = kvl_container(timer, kvl_node_t, drain_timer);
    int64_t now      = kvl_now_ns();
    int64_t next     = kvl_time_add(now, DRAIN_STEP);
    kvl_list_t *link, *after;

    for (link = node->clients.next; link != &node->clients; link = after) {
        kvl_client_t *client = kvl_container(link, kvl_client_t, link);

        after = link->next;
        if (client->holder.count == 0) {
            kvl_session_close(client->session, "the node is draining");
        }
    }
    if (next > node->drain_deadline_ns && now < node->drain_deadline_ns) {
        next = node->drain_deadline_ns;
    }
    (void)kvl_timer_set(kvl_engine_timers(node->engine), timer, next, drain_step);
}

static void drain_begin(kvl_work_t *work)
{
    kvl_node_t *node = kvl_container(work, kvl_node_t, drain_work);
    int64_t timeout_ms;

    /* in this order: who finds it posted must have written the time before we read it */
    atomic_store(&node->drain_posted, false);
    timeout_ms = atomic_load(&node->drain_timeout_ms);
    if (atomic_load(&node->drained)) {
        return;
    }
    node->draining          = true;
    node->drain_deadline_ns = kvl_time_add(kvl_now_ns(), timeout_ms * KVL_MS);
    kvl_info("node %s: draining for at most %" PRId64 " ms", node->address, timeout_ms);
    kvl_server_close(node->server, node->drain_deadline_ns, drain_done, node);
    drain_step(&node->drain_timer);
}

void kvl_node_drain(kvl_node_t *node, int64_t timeout_ms)
{
    int error = errno;

    if (!node) {
        return;
    }
    /* lock-free atomics and, in kvl_engine_post(), at most a write(): a signal handler may come here */
    timeout_ms = timeout_ms < 0 ? 0 : timeout_ms;
    timeout_ms = timeout_ms < KVL_TIME_MAX / KVL_SECOND ? timeout_ms : KVL_TIME_MAX / KVL_SECOND;
    atomic_store(&node->drain_timeout_ms, timeout_ms);
    if (!atomic_exchange(&node->drain_posted, true)) {
        kvl_engine_post(node->engine, &node->drain_work);
    }
    errno = error;
}

/* ---- create ---- */

/* One for each session that may be, out of the node's memory, but not of a slab: a value may take all of a
 * slab. At most a sixteenth: sessions above that number go without their self-test. */
static unsigned scratch_slots(uint64_t memory_bytes, uint64_t sessions, size_t *slot_p)
{
    uint64_t slot = memory_bytes / 64 < SCRATCH_MAX ? memory_bytes / 64 : SCRATCH_MAX;
    uint64_t slots;

    *slot_p = (size_t)slot;
    if (slot < SCRATCH_MIN) {
        return 0;
    }
    slots = memory_bytes / 16 / slot;
    return (unsigned)(slots < sessions ? slots : sessions);
}

/* a client is told of each of them */
static kvl_status_t node_slices(const kvl_node_t *node, uint64_t memory_bytes)
{
    unsigned slices = node->scratch.region ? kvl_region_slices(node->scratch.region) : 0, i;

    for (i = 0; i < node->region_count; i++) {
        slices += kvl_region_slices(node->regions[i]);
    }
    return slices <= KVL_WIRE_REGIONS_MAX
               ? KVL_OK
               : kvl_error(KVL_ERR_LIMIT,
                           "node: %" PRIu64 " bytes of memory are %u registrations, over %u; "
                           "KVLANE_REG_SLICE makes them longer",
                           memory_bytes, slices, KVL_WIRE_REGIONS_MAX);
}

static kvl_status_t node_memory(kvl_node_t *node, uint64_t memory_bytes)
{
    uint64_t pin_max = kvl_engine_settings(node->engine)->pin_max;
    size_t slot;
    unsigned slots =
        scratch_slots(memory_bytes, kvl_engine_settings(node->engine)->max_sessions, &slot);
    uint64_t values = memory_bytes - (uint64_t)slot * slots;
    uint64_t count  = values / KVL_SLAB_MAX + (values % KVL_SLAB_MAX != 0);
    uint64_t unit   = memory_bytes >= HUGE_FROM ? HUGE_PAGE : SMALL_PAGE;
    uint64_t length = values / count / unit * unit;
    kvl_room_t room;
    kvl_status_t status;
    unsigned i;

    if (pin_max && memory_bytes > pin_max) {
        return kvl_error(KVL_ERR_LIMIT, "node: %" PRIu64 " bytes of memory, over KVLANE_PIN_MAX (%" PRIu64
                         "); ask for less, or raise it", memory_bytes, pin_max);
    }
    if (count > KVL_SLABS_MAX) {
        return kvl_error(KVL_ERR_LIMIT,
                         "node: %" PRIu64 " bytes of memory; at most %" PRIu64
                         " (%u slabs); run more nodes",
                         memory_bytes, KVL_SLABS_MAX * KVL_SLAB_MAX, KVL_SLABS_MAX);
    }
    kvl_room_look(&room);
    status = kvl_room_check(&room, kvl_room_is_shared(kvl_engine_settings(node->engine)), memory_bytes);
    for (i = 0; status == KVL_OK && i < count; i++) {
        kvl_region_t *region;

        status = kvl_region_alloc_untouched(node->engine, length, &region);
        if (status == KVL_OK) {
            node->regions[node->region_count++] = region;
            kvl_fill_add(&node->fill, kvl_region_address(region), length);
            status = kvl_store_add_slab(node->store, kvl_region_address(region), length);
        }
    }
    if (status == KVL_OK && slots) {
        status = kvl_scratch_create(&node->scratch, node->engine, slot, slots);
    }
    return status == KVL_OK ? node_slices(node, memory_bytes) : status;
}

static kvl_status_t node_store(kvl_node_t *node)
{
    kvl_store_params_t params = {.max_leases = kvl_engine_settings(node->engine)->max_leases,
                                 .decided    = store_decided,
                                 .hung       = store_hung,
                                 .arg        = node};

    if (getrandom(&params.secret, sizeof(params.secret), 0) != (ssize_t)sizeof(params.secret)) {
        return kvl_error(KVL_ERR_UNSUPPORTED, "node: no random numbers");
    }
    return kvl_store_create(&params, &node->store);
}

/* inside of the engine: from here on clients come */
static kvl_status_t node_open(kvl_node_t *node, const char *listen)
{
    kvl_server_params_t params = {
        .engine = node->engine, .listen = listen, .ops = &kvl_node_server_ops, .arg = node};
    kvl_status_t status = kvl_timers_reserve(kvl_engine_timers(node->engine), 2);

    if (status != KVL_OK) {
        return kvl_error(status, "node: out of memory");
    }
    node->has_timers = true;
    status           = kvl_server_create(&params, &node->server);
    if (status != KVL_OK) {
        return status;
    }
    kvl_server_address(node->server, node->address, sizeof(node->address));
    kvl_engine_add_poller(node->engine, &node->poller);
    kvl_engine_add_printer(node->engine, &node->printer);
    return KVL_OK;
}

/* inside of the engine */
static void node_shut(kvl_node_t *node)
{
    kvl_timers_t *timers = kvl_engine_timers(node->engine);

    if (node->server) {
        kvl_engine_remove_poller(node->engine, &node->poller);
        kvl_engine_remove_printer(node->engine, &node->printer);
        kvl_server_destroy(node->server);
    }
    while (!kvl_list_empty(&node->clients)) { /* not quiet yet; the memory goes anyway */
        kvl_client_t *client = kvl_container(node->clients.next, kvl_client_t, link);

        kvl_holder_close(&client->holder, true);
        kvl_client_free(client);
    }
    kvl_timer_cancel(timers, &node->expiry);
    kvl_timer_cancel(timers, &node->drain_timer);
    if (node->has_timers) {
        kvl_timers_unreserve(timers, 2);
    }
}

static void node_cleanup(kvl_node_t *node)
{
    unsigned i;

    kvl_fill_stop(&node->fill);
    if (node->engine) {
        kvl_engine_enter(node->engine);
        node_shut(node);
        kvl_engine_leave(node->engine);
    }
    kvl_store_destroy(node->store);
    for (i = 0; i < node->region_count; i++) {
        kvl_region_release(node->regions[i]);
    }
    kvl_scratch_cleanup(&node->scratch);
    kvl_engine_destroy(node->engine);
    kvl_free(node);
}

static kvl_status_t node_start(kvl_node_t *node, const kvl_node_params_t *params)
{
    kvl_engine_params_t engine = {.config = params->config, .address = params->listen};
    kvl_status_t status        = kvl_engine_create(&engine, &node->engine);

    if (status == KVL_OK) {
        status = node_store(node);
    }
    if (status == KVL_OK) {
        status = node_memory(node, params->memory_bytes);
    }
    if (status == KVL_OK) {
        kvl_engine_enter(node->engine);
        status = node_open(node, params->listen);
        kvl_engine_leave(node->engine);
    }
    if (status == KVL_OK) {
        node->fill.name = "node";
        kvl_fill_start(&node->fill);
    }
    return status;
}

kvl_status_t kvl_node_create(const kvl_node_params_t *params, kvl_node_t **node_p)
{
    kvl_node_t *node;
    kvl_status_t status;

    if (!params || !node_p || !params->listen) {
        return kvl_error(KVL_ERR_INVALID, "node: params, params->listen or node_p is NULL");
    }
    if (params->memory_bytes < KVL_NODE_MEMORY_MIN) {
        return kvl_error(KVL_ERR_INVALID,
                         "node: %" PRIu64 " bytes of memory; accepted: %u and more",
                         params->memory_bytes, KVL_NODE_MEMORY_MIN);
    }
    node = kvl_calloc(1, sizeof(*node));
    if (!node) {
        return kvl_error(KVL_ERR_NO_MEMORY, "node: out of memory");
    }
    node->poller.func     = node_poll;
    node->printer.func    = kvl_node_print;
    node->drain_work.func = drain_begin;
    node->started_ns      = kvl_now_ns();
    kvl_list_init(&node->clients);
    kvl_list_init(&node->answering);
    status = node_start(node, params);
    if (status != KVL_OK) {
        node_cleanup(node);
        return status;
    }
    *node_p = node;
    return KVL_OK;
}

/* ---- while it lives ---- */

kvl_status_t kvl_node_address(const kvl_node_t *node, char *address, size_t size)
{
    if (!node || !address) {
        return kvl_error(KVL_ERR_INVALID, "kvl_node_address: %s is NULL", node ? "address" : "node");
    }
    if (snprintf(address, size, "%s", node->address) >= (int)size) {
        return kvl_error(KVL_ERR_LIMIT, "node: its address %s does not fit %zu bytes",
                         node->address, size);
    }
    return KVL_OK;
}

kvl_status_t kvl_node_run(kvl_node_t *node)
{
    kvl_status_t status = node ? kvl_engine_may_wait(node->engine, "kvl_node_run")
                               : kvl_error(KVL_ERR_INVALID, "kvl_node_run: node is NULL");

    if (status != KVL_OK) {
        return status;
    }
    while (!kvl_engine_wait(node->engine, &node->drained, kvl_time_add(kvl_now_ns(), KVL_SECOND))) {
        if (kvl_engine_is_lost(node->engine)) {
            return kvl_error(KVL_ERR_RAIL, "node %s: a lane is stuck: a client was killed while it wrote "
                             "to shared memory; start the node again", node->address);
        }
    }
    return KVL_OK;
}

void kvl_node_stat(kvl_node_t *node, kvl_node_stat_t *stat_p)
{
    if (!node || !stat_p) {
        return;
    }
    kvl_engine_enter(node->engine);
    kvl_node_fill_stat(node, stat_p);
    kvl_engine_leave(node->engine);
}

void kvl_node_destroy(kvl_node_t *node)
{
    if (!node || !kvl_engine_may_end(node->engine, "kvl_node_destroy")) {
        return;
    }
    if (!atomic_load(&node->drained)) {
        kvl_node_drain(node, 0);
        kvl_engine_wait(node->engine, &node->drained, KVL_TIME_MAX);
    }
    node_cleanup(node);
}
