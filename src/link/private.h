/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a link share. */
#ifndef KVL_LINK_PRIVATE_H
#define KVL_LINK_PRIVATE_H

#include "engine/fill.h"
#include "link/link.h"
#include "link/pair.h"
#include "link/stream.h"

#define KVL_LINK_TEXT 320
#define KVL_LINE_MAX  128 /* data and sg endpoints of all rails: the mover takes no more */

/* one endpoint of a link, from connect to the end of its close */
typedef struct {
    kvl_endpoint_t endpoint;
    kvl_req_t close_req;
    bool ready;  /* EP_OK came */
    bool closing, closed;
} kvl_line_t;

/* A region of the peer: what it said, and the packed key for endpoints to come. Of several slices: its first;
 * the others follow, each with a key of its own. */
typedef struct {
    kvl_remote_region_t region; /* of a slice that is not the first: id, slot and base alone */
    bool used;
    unsigned slices;       /* that it has; 0: this is one of those that follow */
    uint64_t slice_length; /* of this one */
    uint16_t rkey_length[KVL_RAILS_MAX]; /* by our rail: for the peer's that it is paired with */
    uint8_t *rkey[KVL_RAILS_MAX];
} kvl_link_region_t;

typedef enum {
    KVL_STAGE_NONE,
    KVL_STAGE_HELLO,     /* ctrl connects, HELLO is under way */
    KVL_STAGE_ENDPOINTS, /* data and sg connect and introduce themselves */
    KVL_STAGE_TEST,      /* one pair after the other is tested */
    KVL_STAGE_DONE
} kvl_stage_t;

typedef enum {
    KVL_TEST_FILL, /* the peer fills its scratch */
    KVL_TEST_GET,  /* we read it, by data and by sg */
    KVL_TEST_PUT,  /* we write it, by data and by sg */
    KVL_TEST_HASH  /* the peer tells what it sees */
} kvl_test_step_t;

typedef struct {
    kvl_pair_t *pair; /* NULL: none is tested */
    kvl_test_step_t step;
    kvl_mem_t *mems[KVL_RAILS_MAX];
    kvl_device_t *device;  /* whose memory is tested; NULL: the host's */
    uint8_t *memory;       /* two halves: data, sg */
    uint8_t *mirror;       /* what is in it, or is to be; of the host's it is the same */
    size_t length;         /* of one half */
    kvl_piece_t pieces[2][16];
    kvl_move_t moves[2];
    kvl_flow_t flow;
    unsigned moving;
    kvl_status_t status;
    kvl_call_t call;
    kvl_timer_t timer;
    unsigned tries;
    uint64_t seed;
} kvl_selftest_state_t;

/* what endpoints and movers that are gone did over a rail (stats.c) */
typedef struct {
    kvl_op_counts_t lanes[KVL_LANE_COUNT];
    uint64_t retries;
} kvl_link_past_t;

/* Where the ctrl lane is (ctrl.c). */
typedef enum {
    KVL_CTRL_HERE,
    KVL_CTRL_CLOSING, /* its endpoint is lost, and being closed; then it goes by the next rail that is up */
    KVL_CTRL_RESUMING /* that one connects, RESUME is under way */
} kvl_ctrl_state_t;

typedef struct {
    kvl_ctrl_state_t state;
    kvl_stream_t stream;
    bool lost; /* noted in a callback, acted on in the poller */
    char cause[160];
    kvl_timer_t timer; /* RESUMING: the attempt's end; CLOSING: wakes the engine */
    int64_t end_ns;    /* when the link fails instead */
    uint64_t moves;    /* counter */
} kvl_link_ctrl_t;

struct kvl_link {
    /* constant after create */
    kvl_engine_t *engine;
    char *address;
    kvl_addr_t addr;
    bool transport;
    const kvl_link_ops_t *ops;
    void *arg;

    /* engine thread only */
    kvl_link_state_t state;
    kvl_stage_t stage;
    kvl_poller_t poller;
    kvl_printer_t printer;
    kvl_timer_t timer; /* CONNECTING: the attempt's end; DOWN: the next attempt */
    kvl_link_ctrl_t ctrl;
    kvl_line_t *lines; /* 0: ctrl; then of each pair: data, then sg */
    unsigned line_count;
    bool several; /* rails, here or there: pairs come and go by themselves */
    kvl_pair_t pairs[KVL_RAILS_MAX]; /* by our rail */
    unsigned pair_count;
    unsigned leaving; /* pairs that are LEAVING: no commit meanwhile, if puts are onesided */
    kvl_peer_rail_t peer_rails[KVL_WIRE_RAILS_MAX];
    unsigned peer_rail_count;
    unsigned home_rail;      /* our rail to the given address, constant after create */
    kvl_timer_t watch_timer; /* several: ports and progress */
    kvl_hello_ok_t terms;
    kvl_link_region_t *regions;
    unsigned region_count;
    kvl_ep_info_t info;
    kvl_mode_t put_mode, get_mode;
    kvl_mover_t *mover;
    kvl_selftest_state_t test;
    unsigned devices_seen; /* by device tests, of the engine's count */
    kvl_fill_t fill; /* of mappings (prefault.c) */

    kvl_sendpool_t pool;
    kvl_sendbuf_t *building;
    kvl_list_t calls;
    uint64_t last_request;
    kvl_call_t hello;

    bool failed; /* noted in a callback, acted on in the poller */
    bool up_due;
    kvl_status_t status; /* why it goes, or went, down */
    char cause[KVL_LINK_TEXT];

    unsigned attempts; /* failed in a row */
    unsigned seed;     /* of the jitter */
    uint64_t retired[16];
    unsigned retired_count;

    void (*closed)(kvl_link_t *link, void *arg);
    void *closed_arg;
    bool want_close;

    uint64_t connects, resets, protocol_errors; /* counters */
    kvl_link_past_t past[KVL_RAILS_MAX];
};

/* link.c */
void kvl_link_fail(kvl_link_t *link, kvl_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
extern const kvl_endpoint_ops_t kvl_link_endpoint_ops;
void kvl_link_set_up(kvl_link_t *link);
/* a lane of this engine is stuck: all endpoints have to go */
void kvl_link_renew(kvl_link_t *link);

/* handshake.c */
/* starts an attempt; how it ends is told by up() or down() */
void kvl_link_start(kvl_link_t *link);
void kvl_link_handshake_step(kvl_link_t *link); /* establish.c */
void kvl_link_endpoint_ready(kvl_link_t *link, kvl_endpoint_t *endpoint, const kvl_am_t *am);
void kvl_link_say_bye(kvl_link_t *link);

/* Makes the pairs, and opens them. */
kvl_status_t kvl_pairs_open(kvl_link_t *link);
/* Opens the endpoints of a pair, each of which introduces itself. */
kvl_status_t kvl_pair_open(kvl_pair_t *pair);
/* Keys for its endpoints. establish.c */
kvl_status_t kvl_pair_unpack(kvl_pair_t *pair);
/* Its endpoints are up: do they move bytes as the link's others do? Else KVL_ERR_RAIL in the error text. */
bool kvl_pair_fits(kvl_pair_t *pair);
void kvl_line_close(kvl_line_t *line); /* link.c; by force */

void kvl_line_init(kvl_link_t *link, kvl_line_t *line, kvl_lane_kind_t lane, unsigned rail, unsigned index);
kvl_status_t kvl_line_open(kvl_link_t *link, kvl_line_t *line, const kvl_addr_t *addr); /* handshake.c */

/* ctrl.c */
/* Its endpoint does not work: it goes on over another rail, if there are several. Notes it only; any callback. */
void kvl_ctrl_lost(kvl_link_t *link, kvl_status_t status, const char *why);
void kvl_ctrl_heard(kvl_link_t *link, const kvl_am_t *am);
unsigned kvl_ctrl_step(kvl_link_t *link);
void kvl_ctrl_end(kvl_link_t *link); /* the link resets */

/* pairing.c */
kvl_status_t kvl_pairs_make(kvl_link_t *link);

/* pair.c */
const char *kvl_pair_name(const kvl_pair_t *pair);
void kvl_pairs_start(kvl_link_t *link);
unsigned kvl_pairs_step(kvl_link_t *link);
void kvl_pairs_end(kvl_link_t *link);
const char *kvl_pairs_cause(const kvl_link_t *link);
/* It does not work: of a link with one pair the link fails. Notes it only; any callback. */
void kvl_pair_fail(kvl_pair_t *pair, kvl_status_t status, const char *text);
void kvl_pair_tested(kvl_pair_t *pair);

/* watch.c: several rails; a pair whose port went down, or that stands still, fails */
void kvl_link_watch(kvl_link_t *link);

/* stats.c: keeps the counters of what is about to go */
void kvl_link_keep_line(kvl_link_t *link, const kvl_line_t *line);
void kvl_link_keep_retries(kvl_link_t *link);

/* print.c */
void kvl_link_print(kvl_printer_t *printer, FILE *stream, int json);

/* remote.c */
/* The regions that HELLO_OK tells: @a count records. */
kvl_status_t kvl_link_regions_read(kvl_link_t *link, kvl_rbuf_t *body, size_t count);
/* The key of a slice, which is known already, for the endpoints of our @a rail. */
kvl_status_t kvl_link_region_key(kvl_link_t *link, const kvl_wire_region_t *wire, unsigned rail);
kvl_status_t kvl_link_unpack(kvl_link_t *link, kvl_endpoint_t *endpoint, kvl_link_region_t *region);
void kvl_link_drop_regions(kvl_link_t *link);

/* selftest.c */
/* Over this pair alone; then kvl_pair_tested() or kvl_pair_fail(). */
void kvl_link_test_start(kvl_link_t *link, kvl_pair_t *pair);
void kvl_link_test_cleanup(kvl_link_t *link);
/* Tests devices that are new since the last look over the pairs that are up; the number of things done. */
unsigned kvl_link_test_devices(kvl_link_t *link);

/* prefault.c */
void kvl_link_prefault(kvl_link_t *link);

/* call.c */
/* kvl_link_call_begin() also while a pair is leaving */
kvl_wbuf_t *kvl_link_call_begin_always(kvl_link_t *link);
void kvl_link_answered(kvl_link_t *link, const kvl_am_t *am);
/* fails every call with status; returns how many */
unsigned kvl_link_calls_fail(kvl_link_t *link, kvl_status_t status);

#endif
