/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/clock.h"
#include "node/store.h"
#include "node/store_private.h"

#include <stdlib.h>
#include <string.h>

/* Random clients against a model. The model knows for each key the seed of the value that was committed
 * last; bytes come from the seed. Clients put in both modes, read, hold what they read, abort, let
 * leases run out, die with and without leaving their slots safe, and those that did not go on writing to
 * them. Whatever happens, a value that can be read is the one of the model, byte by byte, and a value
 * that is held does not change. Only evictions may lose keys, and they are counted. */

#define SLAB_BYTES (128u << 10)
#define KEYS       300
#define CLIENTS    6
#define HELD_MAX   8 /* of each kind and client */
#define LENGTH_MAX 20000
#define STEPS      150000

typedef struct {
    uint64_t seed, length; /* length 0: not there */
} content_t;

typedef struct {
    bool used;
    unsigned key;
    content_t content;
    kvl_grant_t grant;
    bool message;    /* bytes come by ops */
    bool committed;  /* the commit was deferred */
    uint64_t posted; /* bytes from the start that an op was begun for */
    uint64_t arrived;
    kvl_lease_t *op; /* one under way */
    bool broken;     /* an op failed */
    bool over;       /* the lease is, but not its op */
    int64_t deadline;
} writing_t;

typedef struct {
    bool used;
    content_t content;
    kvl_grant_t grant;
    kvl_lease_t *op;
    int64_t deadline;
} reading_t;

typedef enum { ALIVE, CLOSED } life_t;

typedef struct {
    kvl_holder_t holder;
    life_t life;
    writing_t writing[HELD_MAX];
    reading_t reading[HELD_MAX];
} actor_t;

typedef struct {
    kvl_store_t *store;
    uint8_t *memory[2];
    content_t keys[KEYS];
    actor_t actors[CLIENTS];
    int64_t now;
    uint64_t random, seed;
    uint64_t lost; /* keys that were evicted, as far as noticed */
    kvl_holder_t *hung;
    unsigned commits, deferred, reads, deaths, quarantines, expiries;
} model_t;

static uint64_t next(model_t *m, uint64_t below)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (m->random >> 11) % below;
}

static uint8_t byte_of(uint64_t seed, uint64_t at)
{
    uint64_t x = (seed + at / 8) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint8_t)((x ^ x >> 29) >> (at % 8 * 8));
}

static void fill(uint8_t *bytes, uint64_t seed, uint64_t from, uint64_t to)
{
    uint64_t i;

    for (i = from; i < to; i++) {
        bytes[i] = byte_of(seed, i);
    }
}

static void compare(const uint8_t *bytes, const content_t *content)
{
    uint64_t i;

    for (i = 0; i < content->length; i++) {
        if (bytes[i] != byte_of(content->seed, i)) {
            CHECK_MSG(false, "byte %llu of %llu is wrong", (unsigned long long)i,
                      (unsigned long long)content->length);
            REQUIRE(bytes[i] == byte_of(content->seed, i));
        }
    }
}

static kvl_key_t key_of(unsigned *number)
{
    return (kvl_key_t){number, sizeof(*number)};
}

static content_t new_content(model_t *m)
{
    uint64_t length = 1 + next(m, next(m, 4) ? 2000 : LENGTH_MAX);

    return (content_t){++m->seed, length};
}

/* was the key evicted since we looked last? */
static void notice(model_t *m, unsigned key)
{
    uint64_t length     = 0;
    kvl_status_t status = kvl_store_exists(m->store, key_of(&key), &length);

    if (status == KVL_OK) {
        REQUIRE(m->keys[key].length == length);
    } else if (m->keys[key].length) {
        m->keys[key].length = 0;
        m->lost++;
    }
}

static void store_hung(kvl_holder_t *holder, void *arg)
{
    ((model_t *)arg)->hung = holder;
}

/* ---- what clients do ---- */

static void do_reserve(model_t *m, actor_t *actor)
{
    writing_t *w      = &actor->writing[next(m, HELD_MAX)];
    content_t content = new_content(m);
    unsigned key      = (unsigned)next(m, KEYS);
    int64_t deadline  = m->now + 1 + (int64_t)next(m, 3000);
    kvl_grant_t grant;
    kvl_status_t status;

    if (w->used) {
        return;
    }
    status = kvl_store_reserve(&actor->holder, key_of(&key), content.length, deadline, &grant);
    REQUIRE(status == KVL_OK || status == KVL_ERR_BUSY);
    if (status == KVL_OK) {
        *w = (writing_t){.used     = true,
                         .key      = key,
                         .content  = content,
                         .grant    = grant,
                         .message  = next(m, 2),
                         .deadline = deadline};
    }
}

static void do_write(model_t *m, actor_t *actor)
{
    writing_t *w      = &actor->writing[next(m, HELD_MAX)];
    kvl_store_op_t op = {.id = w->grant.id, .generation = w->grant.generation};
    kvl_grant_t place;

    if (!w->used || w->op) { /* so it is not over */
        return;
    }
    if (!w->message) {
        fill(w->grant.address, w->content.seed, 0, w->content.length);
        w->arrived = w->content.length;
    } else if (w->posted < w->content.length) {
        op.offset = w->posted;
        op.length = 1 + next(m, w->content.length - w->posted);
        REQUIRE(kvl_store_put_begin(&actor->holder, &op, &w->op, &place) == KVL_OK);
        REQUIRE(place.address == w->grant.address + w->posted);
        w->posted += op.length;
    }
}

static void do_arrive(model_t *m, actor_t *actor)
{
    writing_t *w = &actor->writing[next(m, HELD_MAX)];
    bool fails   = next(m, 50) == 0;

    if (!w->used || !w->op) {
        return;
    }
    fill(w->grant.address, w->content.seed, w->arrived, w->posted);
    w->arrived = w->posted;
    w->broken  = w->broken || fails;
    if (w->committed && !fails && !w->broken && w->arrived == w->content.length) {
        notice(m, w->key); /* it becomes visible now */
    }
    kvl_store_put_end(w->op, fails ? KVL_ERR_LEASE : KVL_OK);
    w->op   = NULL;
    w->used = !w->over;
    if (w->committed && !w->broken && w->arrived == w->content.length) {
        m->keys[w->key] = w->content;
    }
}

static void do_commit(model_t *m, actor_t *actor)
{
    unsigned slot             = (unsigned)next(m, HELD_MAX);
    writing_t *w              = &actor->writing[slot];
    kvl_store_commit_t commit = {.id         = w->grant.id,
                                 .generation = w->grant.generation,
                                 .length     = w->content.length,
                                 .ops        = w->message,
                                 .request    = slot,
                                 .index      = (uint16_t)w->key};
    kvl_status_t status;

    if (!w->used || w->committed || w->over || (!w->message && w->arrived < w->content.length)) {
        return;
    }
    notice(m, w->key);
    status = kvl_store_commit(&actor->holder, &commit);
    if (w->broken) {
        REQUIRE(status == KVL_ERR_LEASE);
        w->used = w->over = w->op != NULL;
    } else if (w->arrived == w->content.length && !w->op) {
        REQUIRE(status == KVL_OK);
        m->keys[w->key] = w->content;
        m->commits++;
        w->used = false;
    } else {
        REQUIRE(status == KVL_INPROGRESS);
        m->deferred++;
        w->committed = true;
    }
}

static void do_answers(model_t *m, actor_t *actor)
{
    kvl_store_answer_t answer;

    while (kvl_holder_answer(&actor->holder, &answer)) {
        writing_t *w = &actor->writing[answer.request];

        REQUIRE(w->used && w->committed && w->key == answer.index && !w->op);
        if (answer.status == KVL_OK) {
            REQUIRE(!w->broken && w->arrived == w->content.length);
        } else {
            REQUIRE(w->broken || w->deadline <= m->now);
        }
        w->used = false;
    }
}

static void do_abort(model_t *m, actor_t *actor)
{
    writing_t *w = &actor->writing[next(m, HELD_MAX)];

    if (!w->used || w->op) { /* with an op under way: in test store_abort */
        return;
    }
    REQUIRE(kvl_store_abort(&actor->holder, w->grant.id, w->grant.generation) == KVL_OK);
    REQUIRE(kvl_store_abort(&actor->holder, w->grant.id, w->grant.generation) == KVL_ERR_LEASE);
    w->used = false;
}

static void do_inline(model_t *m, actor_t *actor)
{
    unsigned key      = (unsigned)next(m, KEYS);
    content_t content = {++m->seed, 1 + next(m, 500)};
    uint8_t bytes[500];
    kvl_status_t status;

    fill(bytes, content.seed, 0, content.length);
    notice(m, key);
    status = kvl_store_put(&actor->holder, key_of(&key), bytes, content.length);
    if (status == KVL_OK) {
        /* its own old value may have made room for it */
        m->keys[key] = content;
        m->commits++;
    } else {
        REQUIRE(status == KVL_ERR_BUSY);
    }
}

static void do_read(model_t *m, actor_t *actor)
{
    reading_t *r     = &actor->reading[next(m, HELD_MAX)];
    unsigned key     = (unsigned)next(m, KEYS);
    int64_t deadline = m->now + 1 + (int64_t)next(m, 3000);
    kvl_found_value_t found;
    kvl_status_t status;

    if (r->used) {
        return;
    }
    notice(m, key);
    status = kvl_store_read(&actor->holder, key_of(&key), 100, deadline, &found);
    if (!m->keys[key].length) {
        REQUIRE(status == KVL_ERR_NOT_FOUND);
        return;
    }
    REQUIRE(status == KVL_OK && found.length == m->keys[key].length);
    REQUIRE(found.leased == (found.length > 100));
    compare(found.address, &m->keys[key]);
    m->reads++;
    if (found.leased) {
        kvl_store_op_t op = {found.grant.id, found.grant.generation, 0, found.length};
        kvl_grant_t place;

        *r = (reading_t){
            .used = true, .content = m->keys[key], .grant = found.grant, .deadline = deadline};
        if (next(m, 3) == 0) {
            REQUIRE(kvl_store_get_begin(&actor->holder, &op, &r->op, &place) == KVL_OK);
        }
    }
}

static void do_release(model_t *m, actor_t *actor)
{
    reading_t *r = &actor->reading[next(m, HELD_MAX)];

    if (!r->used) {
        return;
    }
    compare(r->grant.address, &r->content);
    REQUIRE(kvl_store_release(&actor->holder, r->grant.id, r->grant.generation) == KVL_OK);
    if (r->op) { /* still pinned by the op */
        compare(r->grant.address, &r->content);
        kvl_store_get_end(r->op);
    }
    r->used = false;
}

static void do_remove(model_t *m, actor_t *actor)
{
    unsigned key = (unsigned)next(m, KEYS);

    (void)actor;
    notice(m, key);
    REQUIRE(kvl_store_remove(m->store, key_of(&key)) ==
            (m->keys[key].length ? KVL_OK : KVL_ERR_NOT_FOUND));
    m->keys[key].length = 0;
}

/* foreign, stale and made up leases */
static void do_lie(model_t *m, actor_t *actor)
{
    actor_t *other            = &m->actors[next(m, CLIENTS)];
    writing_t *w              = &other->writing[next(m, HELD_MAX)];
    kvl_store_commit_t commit = {
        .id = w->grant.id, .generation = w->grant.generation, .length = w->content.length};

    if (other == actor || next(m, 3) == 0) {
        commit.id ^= UINT64_C(1) << next(m, 64);
    }
    REQUIRE(kvl_store_commit(&actor->holder, &commit) == KVL_ERR_LEASE);
    REQUIRE(kvl_store_abort(&actor->holder, commit.id, commit.generation) == KVL_ERR_LEASE);
    REQUIRE(kvl_store_release(&actor->holder, commit.id, commit.generation) == KVL_ERR_LEASE);
}

/* ---- life and death ---- */

static void end_ops(model_t *m, actor_t *actor)
{
    unsigned i;

    for (i = 0; i < HELD_MAX; i++) {
        writing_t *w = &actor->writing[i];
        reading_t *r = &actor->reading[i];

        if (w->used && w->op) {
            kvl_store_put_end(w->op, next(m, 2) ? KVL_OK : KVL_ERR_LEASE);
            w->op   = NULL;
            w->used = !w->over;
        }
        if (r->used && r->op) {
            compare(r->grant.address, &r->content);
            kvl_store_get_end(r->op);
            r->op = NULL;
        }
    }
}

static void actor_birth(model_t *m, actor_t *actor)
{
    memset(actor, 0, sizeof(*actor));
    kvl_holder_init(&actor->holder, m->store);
}

static void actor_death(model_t *m, actor_t *actor)
{
    bool quiet = next(m, 2);

    do_answers(m, actor);
    kvl_holder_stop(&actor->holder);
    end_ops(m, actor);
    kvl_holder_close(&actor->holder, quiet);
    m->deaths++;
    if (quiet) {
        actor_birth(m, actor);
    } else {
        actor->life = CLOSED;
        m->quarantines++;
    }
}

/* it still writes to its slots and still reads what it leased */
static void ghost_step(model_t *m, actor_t *actor)
{
    unsigned i   = (unsigned)next(m, HELD_MAX);
    writing_t *w = &actor->writing[i];
    reading_t *r = &actor->reading[i];

    if (w->used) {
        memset(w->grant.address, 0xee, w->content.length);
    }
    if (r->used && r->deadline > m->now) {
        compare(r->grant.address, &r->content);
    }
    if (next(m, 200) == 0) {
        kvl_holder_quiet(&actor->holder);
        actor_birth(m, actor);
    }
}

static void time_step(model_t *m)
{
    unsigned i, j;

    m->now += 1 + (int64_t)next(m, 3);
    m->hung = NULL;
    kvl_store_expire(m->store, m->now);
    for (i = 0; i < CLIENTS; i++) {
        actor_t *actor = &m->actors[i];

        if (actor->life != ALIVE) {
            continue;
        }
        do_answers(m, actor);
        for (j = 0; j < HELD_MAX; j++) {
            reading_t *r = &actor->reading[j];

            if (r->used && r->deadline <= m->now && !r->op) {
                r->used = false; /* taken back */
                m->expiries++;
            }
        }
        /* who holds a slot beyond its lease is closed; the store said so for one of them at least */
        for (j = 0; j < HELD_MAX; j++) {
            bool late = (actor->writing[j].used && !actor->writing[j].over &&
                         actor->writing[j].deadline <= m->now) ||
                        (actor->reading[j].used && actor->reading[j].deadline <= m->now);

            if (late) {
                REQUIRE(m->hung != NULL);
                actor_death(m, actor);
                break;
            }
        }
    }
}

/* everything that must always hold inside */
static void check_inside(model_t *m)
{
    const kvl_slabs_t *slabs = &m->store->slabs;
    uint64_t used = 0, quarantined = 0, visible = 0;
    unsigned i;

    for (i = 0; i < slabs->slab_count; i++) {
        kvl_block_id_t at;

        for (at = slabs->first[i]; at != KVL_BLOCK_NONE; at = kvl_slabs_after(slabs, at)) {
            const kvl_value_t *value = kvl_slabs_owner(slabs, at);

            if (!value) {
                continue;
            }
            REQUIRE(value->block == at && value->length <= kvl_slabs_bytes(slabs, at));
            used += kvl_slabs_bytes(slabs, at);
            quarantined += value->state == KVL_VALUE_SUSPECT;
            visible += value->state == KVL_VALUE_VISIBLE;
            REQUIRE(kvl_evict_may(value) == (value->state == KVL_VALUE_VISIBLE && !value->pins));
            REQUIRE(value->state != KVL_VALUE_DETACHED || value->pins);
        }
    }
    REQUIRE(used == slabs->used_bytes);
    REQUIRE(visible == m->store->index.count);
    REQUIRE(quarantined == m->store->stats.quarantined);
}

static void (*const deeds[])(model_t *m, actor_t *actor) = {
    do_reserve, do_reserve, do_write,   do_write,   do_write,  do_arrive,
    do_arrive,  do_commit,  do_commit,  do_answers, do_abort,  do_inline,
    do_read,    do_read,    do_release, do_release, do_remove, do_lie,
};

static void model_init(model_t *m, uint64_t random)
{
    kvl_store_params_t params = {
        .max_leases = 2 * HELD_MAX, .secret = random, .hung = store_hung, .arg = m};
    unsigned i;

    memset(m, 0, sizeof(*m));
    m->random = random;
    REQUIRE(kvl_store_create(&params, &m->store) == KVL_OK);
    for (i = 0; i < 2; i++) {
        m->memory[i] = malloc(SLAB_BYTES);
        REQUIRE(kvl_store_add_slab(m->store, m->memory[i], SLAB_BYTES) == KVL_OK);
    }
    for (i = 0; i < CLIENTS; i++) {
        actor_birth(m, &m->actors[i]);
    }
}

static void model_cleanup(model_t *m)
{
    unsigned i;

    for (i = 0; i < CLIENTS; i++) {
        end_ops(m, &m->actors[i]);
        kvl_holder_close(&m->actors[i].holder, true);
    }
    kvl_store_destroy(m->store);
    free(m->memory[0]);
    free(m->memory[1]);
}

static void run(uint64_t random)
{
    static model_t m;
    kvl_store_stats_t stats;
    unsigned step, i;

    model_init(&m, random);
    for (step = 0; step < STEPS; step++) {
        actor_t *actor = &m.actors[next(&m, CLIENTS)];

        if (step % 8 == 0) {
            time_step(&m);
        }
        if (actor->life == CLOSED) {
            ghost_step(&m, actor);
        } else if (next(&m, 3000) == 0) {
            actor_death(&m, actor);
        } else {
            do_answers(&m, actor);
            deeds[next(&m, sizeof(deeds) / sizeof(deeds[0]))](&m, actor);
        }
        if (step % 1000 == 0) {
            check_inside(&m);
        }
    }
    for (i = 0; i < KEYS; i++) {
        notice(&m, i);
    }
    kvl_store_stats(m.store, &stats);
    CHECK_EQ(m.lost, stats.evictions); /* nothing else lost a key */
    /* all of it did happen */
    CHECK(m.commits > 1000 && m.deferred > 100 && m.reads > 1000 && stats.evictions > 100);
    CHECK(m.deaths > 10 && m.quarantines > 5 && m.expiries > 10);
    model_cleanup(&m);
}

TEST(model_run, agrees_with_the_store)
{
    run(88172645463325252u);
}

TEST(model_run, agrees_with_the_store_by_another_chance)
{
    run(1181783497276652981u);
}
