/* SPDX-License-Identifier: BSD-3-Clause */
/* A stage for src/client without a network: an engine that turns when told, a clock that stands still,
 * a link whose messages and moves wait for the test to answer them. Every byte of a message is the
 * real codec's. One stage at a time. */
#ifndef KVL_FAKE_CLIENT_H
#define KVL_FAKE_CLIENT_H

#include "client/job.h"
#include "shim/shim.h"

#define FAKE_MESSAGES 64
#define FAKE_MOVES    4096
#define FAKE_ITEMS    4096

/* One message that the client sent, decoded. */
typedef struct {
    kvl_msg_type_t type;
    kvl_call_t *call; /* NULL: no answer wanted, or it is over */
    unsigned count;
    uint32_t ttl_ms;
    struct {
        unsigned index;
        uint8_t key[256];
        unsigned key_length;
        uint64_t length, lease;
        uint32_t generation, ops;
        bool has_inline;
        uint8_t bytes[16];
    } * items;
} fake_message_t;

typedef struct {
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    uint8_t *memory; /* one region of 1 MiB */
    kvl_region_t region;
    kvl_settings_t settings;
    kvl_hello_ok_t terms;
    /* what came */
    fake_message_t messages[FAKE_MESSAGES];
    unsigned first, count;         /* not yet taken: [first, first + count) */
    kvl_move_t *moves[FAKE_MOVES]; /* with the mover, in order */
    unsigned move_count;
    unsigned canceled_moves, resets, protocol_errors, notified, callbacks;
    /* what to do */
    unsigned send_failures; /* of the next calls */
    bool moves_busy;
    kvl_status_t refuse; /* of kvl_link_want() while down */
} fake_t;

extern int64_t fake_now_ns;

/* A cache on a link that is up (or connecting). */
fake_t *fake_open(bool up);
void fake_close(
    fake_t *fake); /* destroys the cache; every batch must be complete or will be canceled */
void fake_turn(fake_t *fake);             /* inbox, timers, pollers */
void fake_pass(fake_t *fake, int64_t ns); /* time passes, then a turn */

void fake_up(fake_t *fake);
/* Completes moves and calls with the status, then tells the owner. */
void fake_down(fake_t *fake, kvl_status_t status);

/* A batch of items "k0", "k1", ... of one segment of @a length bytes each (or none for queries). */
kvl_batch_t *fake_submit(fake_t *fake, kvl_cache_op_t op, size_t count, size_t length,
                         int64_t timeout_ms);

/* The oldest message not yet taken; fails the test if it is of another type. */
fake_message_t *fake_take(fake_t *fake, kvl_msg_type_t type);
/* Answers. All items in one message: leases that do not overlap, or @a status for all. */
void fake_reserved(fake_message_t *message, kvl_status_t status);
void fake_found(fake_message_t *message, kvl_status_t status, uint64_t length);
void fake_answered(fake_message_t *message, kvl_msg_type_t type, kvl_status_t status);
/* The same for one item. */
void fake_reserved_one(fake_message_t *message, unsigned item, kvl_status_t status,
                       const kvl_wire_lease_t *lease);
void fake_found_one(fake_message_t *message, unsigned item, const kvl_found_t *found);
void fake_answered_one(fake_message_t *message, kvl_msg_type_t type, unsigned item,
                       kvl_status_t status, uint64_t length);
/* The request is refused as a whole. */
void fake_refuse(fake_message_t *message, kvl_status_t status);

/* The oldest move with the mover ends. */
void fake_moved(fake_t *fake, kvl_status_t status);

#endif
