/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"
#include "node/store_private.h"

#include <string.h>
#include <xxhash.h>

/* Leases and their holders.
 *
 *     write  OPEN -> commit -> freed, the value is visible
 *                 -> COMMITTING -> ANSWER -> freed   bytes were still on their way
 *                 -> abort -> (ENDING ->) freed, the slot comes back
 *     read   OPEN -> release -> (ENDING ->) freed, the value is unpinned
 *
 * ENDING waits for message-mode ops: the slot is UCX's until the last of them is back. A lease that is
 * overdue is ended if that is safe; if not, its holder hangs and its session must go. */

#define NUMBER_BITS 32

/* ---- a lease's memory ---- */

kvl_status_t kvl_lease_reserve(kvl_holder_t *holder)
{
    kvl_store_t *store = holder->store;

    if (holder->stopped) {
        return KVL_ERR_CLOSED;
    }
    if (holder->count >= store->params.max_leases) {
        return KVL_ERR_BUSY;
    }
    if (store->leases.used >= store->timer_room) {
        if (kvl_timers_reserve(&store->timers, KVL_IPOOL_CHUNK) != KVL_OK) {
            return KVL_ERR_NO_MEMORY;
        }
        store->timer_room += KVL_IPOOL_CHUNK;
    }
    return kvl_ipool_reserve(&store->leases);
}

static void lease_free(kvl_lease_t *lease)
{
    kvl_holder_t *holder = lease->holder;
    kvl_store_t *store   = holder->store;

    kvl_timer_cancel(&store->timers, &lease->expiry);
    kvl_list_remove(&lease->link);
    kvl_ranges_cleanup(&lease->ranges);
    holder->count--;
    lease->holder = NULL;
    lease->state  = KVL_LEASE_FREE;
    kvl_ipool_put(&store->leases, lease->number);
}

/* 64 bits that nobody can tell from those before */
static uint64_t lease_random(kvl_store_t *store)
{
    uint64_t serial = ++store->lease_serial;

    return XXH3_64bits_withSeed(&serial, sizeof(serial), store->params.secret);
}

static void lease_expired(kvl_timer_t *timer);

void kvl_grant_fill(const kvl_store_t *store, const kvl_value_t *value, kvl_grant_t *grant_p)
{
    grant_p->slab    = kvl_slabs_slab(&store->slabs, value->block);
    grant_p->offset  = kvl_slabs_offset(&store->slabs, value->block);
    grant_p->address = value->address;
}

void kvl_lease_open(kvl_holder_t *holder, kvl_value_t *value, bool write, int64_t deadline_ns,
                    kvl_grant_t *grant_p)
{
    kvl_store_t *store = holder->store;
    uint64_t random    = lease_random(store);
    kvl_lease_t *lease;
    uint32_t number = 0;

    (void)kvl_ipool_get(&store->leases, &number); /* was reserved */
    lease  = kvl_ipool_at(&store->leases, number);
    *lease = (kvl_lease_t){.number     = number,
                           .generation = (uint32_t)random,
                           .id         = (random >> NUMBER_BITS << NUMBER_BITS) | number,
                           .holder     = holder,
                           .value      = value,
                           .state      = KVL_LEASE_OPEN,
                           .write      = write};
    kvl_ranges_init(&lease->ranges);
    kvl_list_push_back(&holder->leases, &lease->link);
    holder->count++;
    (void)kvl_timer_set(&store->timers, &lease->expiry, deadline_ns, lease_expired); /* reserved */
    grant_p->id         = lease->id;
    grant_p->generation = lease->generation;
    kvl_grant_fill(store, value, grant_p);
}

/* The holder's lease of that name, which the client may still use; NULL, and counted, if not. */
static kvl_lease_t *lease_find(kvl_holder_t *holder, uint64_t id, uint32_t generation, bool write)
{
    kvl_store_t *store = holder->store;
    uint32_t number    = (uint32_t)id;
    kvl_lease_t *lease;

    if (number < store->leases.count && !holder->stopped) {
        lease = kvl_ipool_at(&store->leases, number);
        if (lease->holder == holder && lease->id == id && lease->generation == generation &&
            lease->write == write &&
            (lease->state == KVL_LEASE_OPEN || lease->state == KVL_LEASE_COMMITTING)) {
            return lease;
        }
    }
    store->stats.refused++;
    return NULL;
}

/* ---- ends ---- */

/* its slot comes back, or its pin */
static void lease_let_go(kvl_lease_t *lease)
{
    kvl_store_t *store = lease->holder->store;

    if (!lease->write) {
        kvl_value_unpin(store, lease->value);
    } else {
        store->stats.aborts++;
        kvl_value_destroy(store, lease->value);
    }
    lease->value = NULL;
}

/* The client is done with it, or it never comes back. */
static void lease_end(kvl_lease_t *lease)
{
    if (lease->ops) {
        kvl_timer_cancel(&lease->holder->store->timers, &lease->expiry);
        lease->state = KVL_LEASE_ENDING;
        return;
    }
    lease_let_go(lease);
    lease_free(lease);
}

/* A deferred commit that is decided: the value is visible, or its slot came back. */
static void lease_answer(kvl_lease_t *lease, kvl_status_t status)
{
    kvl_holder_t *holder = lease->holder;

    kvl_timer_cancel(&holder->store->timers, &lease->expiry);
    if (status == KVL_OK) {
        kvl_value_show(holder->store, lease->value);
        lease->value = NULL;
    } else {
        lease_let_go(lease);
    }
    lease->status = status;
    lease->state  = KVL_LEASE_ANSWER;
    kvl_list_remove(&lease->link);
    kvl_list_push_back(&holder->answers, &lease->link);
    if (holder->store->params.decided) {
        holder->store->params.decided(holder, holder->store->params.arg);
    }
}

static void lease_expired(kvl_timer_t *timer)
{
    kvl_lease_t *lease = kvl_container(timer, kvl_lease_t, expiry);
    kvl_store_t *store = lease->holder->store;

    store->stats.expired++;
    if (!lease->ops && !lease->write) {
        lease_end(lease); /* whoever reads on knows that he must not believe it */
    } else if (!lease->ops && lease->state == KVL_LEASE_COMMITTING) {
        lease_answer(lease, KVL_ERR_LEASE); /* its bytes never came */
    } else if (store->params.hung) {
        store->params.hung(lease->holder, store->params.arg);
    }
}

void kvl_store_expire(kvl_store_t *store, int64_t now_ns)
{
    kvl_timers_run(&store->timers, now_ns);
}

int64_t kvl_store_next_expiry(const kvl_store_t *store)
{
    return kvl_timers_next(&store->timers);
}

/* ---- commit, abort, release ---- */

static bool lease_is_whole(const kvl_lease_t *lease)
{
    return !lease->ops && (!lease->waits || kvl_ranges_whole(&lease->ranges, lease->value->length));
}

kvl_status_t kvl_store_commit(kvl_holder_t *holder, const kvl_store_commit_t *commit)
{
    kvl_lease_t *lease = lease_find(holder, commit->id, commit->generation, true);
    kvl_status_t status;

    if (!lease || lease->state != KVL_LEASE_OPEN) {
        return KVL_ERR_LEASE;
    }
    status = commit->length != lease->value->length ? KVL_ERR_LENGTH : lease->status;
    if (status != KVL_OK) {
        lease_end(lease);
        return status;
    }
    lease->waits = commit->ops > 0 || lease->ranges.count > 0;
    if (!lease_is_whole(lease)) {
        lease->state   = KVL_LEASE_COMMITTING;
        lease->request = commit->request;
        lease->index   = commit->index;
        return KVL_INPROGRESS;
    }
    kvl_value_show(holder->store, lease->value);
    lease_free(lease);
    return KVL_OK;
}

bool kvl_holder_answer(kvl_holder_t *holder, kvl_store_answer_t *answer_p)
{
    kvl_lease_t *lease;

    if (kvl_list_empty(&holder->answers)) {
        return false;
    }
    lease     = kvl_container(holder->answers.next, kvl_lease_t, link);
    *answer_p = (kvl_store_answer_t){lease->request, lease->index, lease->status};
    lease_free(lease);
    return true;
}

kvl_status_t kvl_store_abort(kvl_holder_t *holder, uint64_t id, uint32_t generation)
{
    kvl_lease_t *lease = lease_find(holder, id, generation, true);

    if (!lease) {
        return KVL_ERR_LEASE;
    }
    lease_end(lease);
    return KVL_OK;
}

kvl_status_t kvl_store_release(kvl_holder_t *holder, uint64_t id, uint32_t generation)
{
    kvl_lease_t *lease = lease_find(holder, id, generation, false);

    if (!lease) {
        return KVL_ERR_LEASE;
    }
    lease_end(lease);
    return KVL_OK;
}

/* ---- message-mode ops ---- */

static kvl_status_t op_check(const kvl_lease_t *lease, const kvl_store_op_t *op)
{
    if (!op->length || op->offset > lease->value->length ||
        op->length > lease->value->length - op->offset) {
        return KVL_ERR_RANGE;
    }
    return KVL_OK;
}

static void op_start(kvl_lease_t *lease, const kvl_store_op_t *op, kvl_lease_t **lease_p,
                     kvl_grant_t *place_p)
{
    lease->ops++;
    place_p->id         = lease->id;
    place_p->generation = lease->generation;
    kvl_grant_fill(lease->holder->store, lease->value, place_p);
    place_p->offset += op->offset;
    place_p->address += op->offset;
    *lease_p = lease;
}

/* after a change of ops or status: is a deferred commit decided now? */
static void lease_settle(kvl_lease_t *lease)
{
    if (lease->state == KVL_LEASE_COMMITTING && !lease->ops) {
        if (lease->status != KVL_OK) {
            lease_answer(lease, lease->status);
        } else if (lease_is_whole(lease)) {
            lease_answer(lease, KVL_OK);
        }
    } else if (lease->state == KVL_LEASE_ENDING && !lease->ops) {
        lease_let_go(lease);
        lease_free(lease);
    }
}

kvl_status_t kvl_store_put_begin(kvl_holder_t *holder, const kvl_store_op_t *op,
                                 kvl_lease_t **lease_p, kvl_grant_t *place_p)
{
    kvl_lease_t *lease = lease_find(holder, op->id, op->generation, true);
    kvl_status_t status;

    if (!lease) {
        return KVL_ERR_LEASE;
    }
    status = op_check(lease, op);
    if (status == KVL_OK && !holder->repeats) {
        status = kvl_ranges_add(&lease->ranges, op->offset, op->offset + op->length);
    }
    if (status != KVL_OK) {
        holder->store->stats.refused++;
        lease->status = status;
        lease_settle(lease);
        return status;
    }
    op_start(lease, op, lease_p, place_p);
    return KVL_OK;
}

void kvl_store_put_landed(kvl_lease_t *lease, uint64_t offset, uint64_t length)
{
    kvl_status_t status = kvl_ranges_join(&lease->ranges, offset, offset + length);

    if (status != KVL_OK) {
        lease->status = status;
    }
}

void kvl_store_put_end(kvl_lease_t *lease, kvl_status_t status)
{
    lease->ops--;
    if (status != KVL_OK) {
        lease->status = status;
    }
    lease_settle(lease);
}

kvl_status_t kvl_store_get_begin(kvl_holder_t *holder, const kvl_store_op_t *op,
                                 kvl_lease_t **lease_p, kvl_grant_t *place_p)
{
    kvl_lease_t *lease = lease_find(holder, op->id, op->generation, false);
    kvl_status_t status;

    if (!lease) {
        return KVL_ERR_LEASE;
    }
    status = op_check(lease, op);
    if (status != KVL_OK) {
        holder->store->stats.refused++;
        return status;
    }
    op_start(lease, op, lease_p, place_p);
    return KVL_OK;
}

void kvl_store_get_end(kvl_lease_t *lease)
{
    lease->ops--;
    lease_settle(lease);
}

/* ---- holders ---- */

void kvl_holder_init(kvl_holder_t *holder, kvl_store_t *store)
{
    *holder = (kvl_holder_t){.store = store};
    kvl_list_init(&holder->leases);
    kvl_list_init(&holder->answers);
}

void kvl_holder_stop(kvl_holder_t *holder)
{
    kvl_store_answer_t answer;
    kvl_list_t *node;

    holder->stopped = true;
    while (kvl_holder_answer(holder, &answer)) {
        /* nobody is there to hear it */
    }
    for (node = holder->leases.next; node != &holder->leases; node = node->next) {
        kvl_lease_t *lease = kvl_container(node, kvl_lease_t, link);

        if (lease->state == KVL_LEASE_COMMITTING) {
            lease->state = KVL_LEASE_OPEN; /* like one that was never committed */
        }
        if (lease->write) {
            kvl_timer_cancel(&holder->store->timers, &lease->expiry);
        }
    }
}

static void value_suspect(kvl_store_t *store, kvl_value_t *value)
{
    value->state = KVL_VALUE_SUSPECT;
    store->stats.quarantined++;
}

void kvl_holder_close(kvl_holder_t *holder, bool quiet)
{
    kvl_store_t *store = holder->store;
    kvl_list_t *node;

    kvl_holder_stop(holder);
    if (quiet) {
        kvl_holder_quiet(holder);
        return;
    }
    for (node = holder->leases.next; node != &holder->leases; node = node->next) {
        kvl_lease_t *lease = kvl_container(node, kvl_lease_t, link);

        if (lease->write) {
            value_suspect(store, lease->value);
        }
    }
}

void kvl_holder_quiet(kvl_holder_t *holder)
{
    kvl_list_t *node;

    while ((node = holder->leases.next) != &holder->leases) {
        kvl_lease_t *lease = kvl_container(node, kvl_lease_t, link);

        lease_let_go(lease);
        lease_free(lease);
    }
}
