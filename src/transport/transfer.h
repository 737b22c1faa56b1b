/* SPDX-License-Identifier: BSD-3-Clause */
/* A transfer, shared by who makes it (transfer_make.c) and who runs it (transfer.c). */
#ifndef KVL_TRANSPORT_TRANSFER_H
#define KVL_TRANSPORT_TRANSFER_H

#include "transport/peer.h"

typedef enum { TRANSFER_WAITING, TRANSFER_MOVING, TRANSFER_FINISHING, TRANSFER_OVER } transfer_state_t;

typedef struct transfer transfer_t;

typedef struct {
    kvl_move_t move;
    transfer_t *transfer;
    kvl_remote_t *remote;
    bool done;
} run_t;

struct transfer {
    kvl_batch_t batch;
    kvl_work_t work;
    kvl_list_t link; /* in peer->waiting or running */
    kvl_peer_t *peer;
    transfer_state_t state;
    kvl_transfer_op_t op;
    kvl_flow_t flow;
    kvl_timer_t timer;
    kvl_call_t fin;
    kvl_result_t result;
    kvl_status_t status; /* the first failure, or why it ends early */
    bool ending;         /* deadline or cancel: timer runs for the quiesce time */
    bool again;          /* the link was reset because of another transfer: start over */
    uint64_t number, bytes;
    kvl_device_t *device; /* of its parts that are device memory; NULL: none is */
    kvl_timer_t gate;     /* WAITING for the caller's work on it */
    kvl_piece_t *pieces;
    kvl_region_t **regions; /* held, one per part */
    size_t part_count, run_count, runs_left;
    run_t *runs;
    bool has_notification;
    size_t notification_length;
    uint8_t *notification;
};

/* transfer_make.c; nothing is held yet */
kvl_status_t kvl_transfer_make(kvl_peer_t *peer, const kvl_transfer_t *in, transfer_t **transfer_p);
void kvl_transfer_free(transfer_t *transfer);
/* transfer.c: of run_t.move */
void kvl_run_done(kvl_move_t *move, kvl_status_t status);

#endif
