/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to bytes and back. Pure: no network, no allocation, no pointer into anything but the
 * given buffer. All integers are little endian. Every decoder accepts any bytes and answers
 * KVL_ERR_PROTOCOL with a text that names the field; nothing is trusted before it is checked.
 *
 * A control message is head + body, sent as the data of one eager active message (id
 * KVL_AM_CTRL, no AM header). Requests carry many items; an answer carries the indices that it
 * answers, so that a request may be answered in several messages, in any order. */
#ifndef KVL_WIRE_WIRE_H
#define KVL_WIRE_WIRE_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVL_WIRE_MAGIC       0x4b4c /* "LK" in memory */
#define KVL_WIRE_VERSION     1
#define KVL_WIRE_VERSION_MIN 1
#define KVL_WIRE_HEAD_SIZE   24
#define KVL_WIRE_MAX         (64u << 10)        /* longest control message */
#define KVL_WIRE_NOTIFY_MAX  ((1u << 20) + 4096 + 256) /* ... but a KVL_MSG_XFER_FIN */
#define KVL_WIRE_ITEMS_MAX   4096               /* most items of one message */
#define KVL_WIRE_KEY_MAX     255
#define KVL_WIRE_REGIONS_MAX 256
#define KVL_WIRE_RKEY_MAX    1024
#define KVL_WIRE_TEXT_MAX    255
#define KVL_WIRE_RAILS_MAX   16

/* ids of active messages, the same on every worker */
enum {
    KVL_AM_CTRL      = 1, /* control message, ctrl lane */
    KVL_AM_EP_HELLO  = 2, /* control message on the endpoint that it introduces, any lane */
    KVL_AM_PUT       = 3, /* data header + bytes, initiator to target */
    KVL_AM_GET       = 4, /* data header, initiator to target */
    KVL_AM_GET_REPLY = 5, /* data header + bytes, target to initiator */
    KVL_AM_COUNT
};

typedef enum {
    KVL_MSG_HELLO = 1, /* client, first on a ctrl endpoint */
    KVL_MSG_HELLO_OK,
    KVL_MSG_REFUSE, /* answer to any request that is refused as a whole; head.status says why */
    KVL_MSG_EP_HELLO,
    KVL_MSG_EP_OK,
    KVL_MSG_SELFTEST,
    KVL_MSG_SELFTEST_OK,
    KVL_MSG_PING,
    KVL_MSG_PONG,
    KVL_MSG_BYE,
    KVL_MSG_BYE_OK,
    KVL_MSG_RESERVE,
    KVL_MSG_RESERVED,
    KVL_MSG_LOOKUP,
    KVL_MSG_FOUND,
    KVL_MSG_COMMIT,
    KVL_MSG_COMMITTED,
    KVL_MSG_RELEASE, /* read leases; no answer */
    KVL_MSG_ABORT,   /* write leases; no answer */
    KVL_MSG_EXISTS,
    KVL_MSG_EXISTS_OK,
    KVL_MSG_REMOVE,
    KVL_MSG_REMOVED,
    KVL_MSG_STAT,
    KVL_MSG_STAT_OK,
    KVL_MSG_XFER_FIN, /* engine to engine: all ops of a transfer were sent */
    KVL_MSG_XFER_OK,
    KVL_MSG_RAIL, /* a rail of this session comes or goes */
    KVL_MSG_RAIL_OK,
    KVL_MSG_RESUME, /* the ctrl lane of an open session comes by another rail */
    KVL_MSG_RESUME_OK,
    KVL_MSG_RECEIVED, /* nothing but its stream head */
    KVL_MSG_LAST = KVL_MSG_RECEIVED
} kvl_msg_type_t;

typedef struct {
    uint8_t version;
    uint8_t type;     /* kvl_msg_type_t, checked */
    uint16_t count;   /* items that follow; 0 for messages without items */
    uint64_t request; /* chosen by the client, echoed by the answer; 0: no answer wanted */
    int32_t status;   /* kvl_status_t; answers only, else 0 */
    uint32_t body;    /* bytes after the head */
} kvl_msg_head_t;

/* ---- writing: a fixed buffer that remembers overflow; check once at the end ---- */
typedef struct {
    uint8_t *data;
    size_t size, used;
    bool overflow;
    uint16_t count; /* items added */
} kvl_wbuf_t;

void kvl_wbuf_init(kvl_wbuf_t *w, void *data, size_t size); /* leaves room for the head */
/* Completes the head; returns the message's length, 0 if it did not fit. */
size_t kvl_wbuf_finish(kvl_wbuf_t *w, kvl_msg_type_t type, uint64_t request, kvl_status_t status);
/* Bytes that are free. An add of an item that does not fit, or one past KVL_WIRE_ITEMS_MAX, returns
 * false and changes nothing; a body that does not fit returns false and is remembered. */
size_t kvl_wbuf_room(const kvl_wbuf_t *w);

/* ---- reading ---- */
typedef struct {
    const uint8_t *data;
    size_t size, at;
    uint16_t left;       /* items not yet read */
    const char *message; /* its name, for error texts */
    /* the first fault; every get_ after it fails too. NULL: none */
    const char *fault_field, *fault_why;
} kvl_rbuf_t;

/* Checks magic, version range, type, and that body and length agree. On success @a r reads the
 * body. KVL_ERR_VERSION if only the version is out of range: HELLO and REFUSE are always sent as
 * version 1, so that two sides that share no version can still say so. */
kvl_status_t kvl_wire_open(kvl_rbuf_t *r, const void *data, size_t length, kvl_msg_head_t *head_p);
/* KVL_ERR_PROTOCOL if items or bytes are left over: call when a message was read to its end. */
kvl_status_t kvl_wire_close(const kvl_rbuf_t *r);
const char *kvl_msg_name(unsigned type);

/* ---- handshake ---- */
typedef struct {
    uint8_t version_min, version_max;
    uint64_t nonce; /* names the engine; the high 56 bits of its workers' client ids */
    uint16_t depth, sg_endpoints, data_depth;
    uint8_t mode;      /* kvl_wire_mode_t: 0 auto, 1 onesided, 2 message */
    uint8_t transport; /* 1: engine to engine (no cache) */
    uint32_t inline_max;
    uint32_t pid;
    uint64_t pid_start; /* field 22 of /proc/PID/stat, with pid: names a process for good */
    uint64_t pid_ns;    /* inode of /proc/self/ns/pid; 0: unknown */
    uint8_t boot_id[16];
    char name[KVL_WIRE_TEXT_MAX + 1]; /* for logs */
    uint16_t retired_count; /* sessions of this engine whose callbacks all ran: promise 5 */
    uint64_t retired[16];
} kvl_hello_t;

/* A region, or a slice of one: records with the same id that follow each other are its slices in order, each
 * of which begins where the last one ended; all but the last have one length. */
typedef struct {
    uint32_t id;
    uint8_t rail;
    uint64_t base; /* remote address of its first byte */
    uint64_t length;
    uint16_t rkey_length;
    const uint8_t *rkey; /* decoder: points into the message */
} kvl_wire_region_t;

typedef struct {
    uint8_t version;
    uint64_t session;
    uint16_t depth, sg_endpoints, data_depth; /* in force */
    uint32_t inline_max;                      /* in force */
    uint32_t lease_max_ms;
    uint64_t chunk_bytes;    /* longest op in message mode, in force */
    uint64_t value_max;      /* longest value the node can hold */
    uint32_t scratch_region; /* for the self-test; scratch_length 0: none */
    uint64_t scratch_offset;
    uint32_t scratch_length;
    char name[KVL_WIRE_TEXT_MAX + 1]; /* version text of the target */
} kvl_hello_ok_t;                     /* items: regions */

typedef struct {
    uint64_t session;
    uint8_t lane; /* 1 data, 2 sg */
    uint16_t index;
} kvl_ep_hello_t; /* EP_OK has the same body */

typedef struct {
    uint8_t step; /* 0: fill scratch with kvl_wire_pattern(seed); 1: answer the hash of scratch */
    uint64_t seed;
    uint32_t length;
    uint64_t hash; /* answer of step 1: XXH3 64 bit */
} kvl_selftest_t;

bool kvl_put_hello(kvl_wbuf_t *w, const kvl_hello_t *m);
kvl_status_t kvl_get_hello(kvl_rbuf_t *r, kvl_hello_t *m);
bool kvl_put_hello_ok(kvl_wbuf_t *w, const kvl_hello_ok_t *m); /* then kvl_put_region per item */
kvl_status_t kvl_get_hello_ok(kvl_rbuf_t *r, kvl_hello_ok_t *m);
/* regions over KVL_WIRE_REGIONS_MAX do not fit */
bool kvl_put_region(kvl_wbuf_t *w, const kvl_wire_region_t *m);
kvl_status_t kvl_get_region(kvl_rbuf_t *r, kvl_wire_region_t *m);
/* Are these the slices of one region, all of them and in order? */
bool kvl_region_slices_fit(const kvl_wire_region_t *slices, size_t count);
bool kvl_put_text(kvl_wbuf_t *w, const char *text); /* REFUSE: the reason, cut to TEXT_MAX */
kvl_status_t kvl_get_text(kvl_rbuf_t *r,
                          char text[KVL_WIRE_TEXT_MAX + 1]); /* printable on return */
bool kvl_put_ep_hello(kvl_wbuf_t *w, const kvl_ep_hello_t *m);
kvl_status_t kvl_get_ep_hello(kvl_rbuf_t *r, kvl_ep_hello_t *m);
bool kvl_put_selftest(kvl_wbuf_t *w, const kvl_selftest_t *m);
kvl_status_t kvl_get_selftest(kvl_rbuf_t *r, kvl_selftest_t *m);
/* the self-test's bytes; every byte depends on seed and place */
void kvl_wire_pattern(void *data, size_t length, uint64_t seed);

/* A rail of the target, and where it listens for the client's data and sg endpoints. */
enum { KVL_PEER_RAIL_RDMA, KVL_PEER_RAIL_TCP, KVL_PEER_RAIL_SHM, KVL_PEER_RAIL_LAST = KVL_PEER_RAIL_SHM };
typedef struct {
    uint8_t kind;
    uint8_t family; /* of the address: 4 or 6; 0: none, the one that HELLO went to will do */
    uint16_t port;
    uint32_t mtu; /* bytes, of its interface; 0: unknown. For people: what does not fit is told by name */
    uint8_t address[16];
    char name[KVL_WIRE_TEXT_MAX + 1];
} kvl_peer_rail_t;
/* after the regions of HELLO_OK; none, or one without an address: it has one rail, where HELLO went to */
bool kvl_put_peer_rails(kvl_wbuf_t *w, const kvl_peer_rail_t *rails, unsigned count);
kvl_status_t kvl_get_peer_rails(kvl_rbuf_t *r, kvl_peer_rail_t rails[KVL_WIRE_RAILS_MAX],
                                unsigned *count_p);

/* RAIL: the client's endpoints on its rail connect to that target rail, or are gone. RAIL_OK has the same
 * body; join: and the regions, with the keys for that target rail, as items; leave: it comes when nothing
 * of that rail can touch the target's memory any more. */
typedef struct {
    bool leave;
    uint8_t rail, target;             /* of the client; of the target */
    char name[KVL_WIRE_TEXT_MAX + 1]; /* of the sender's device */
} kvl_wire_rail_t;
bool kvl_put_rail(kvl_wbuf_t *w, const kvl_wire_rail_t *m);
kvl_status_t kvl_get_rail(kvl_rbuf_t *r, kvl_wire_rail_t *m);

/* Several rails: ctrl messages are numbered from 1 in each direction, in the header of the active message;
 * number 0: RECEIVED, which is not. */
#define KVL_STREAM_HEAD_SIZE 16
typedef struct {
    uint64_t number, received; /* received: the last number that the sender got */
} kvl_stream_head_t;
void kvl_put_stream_head(uint8_t bytes[KVL_STREAM_HEAD_SIZE], const kvl_stream_head_t *m);
kvl_status_t kvl_get_stream_head(const void *bytes, size_t size, kvl_stream_head_t *m);

/* RESUME and RESUME_OK, neither of them numbered: each tells the last number that it got. */
typedef struct {
    uint64_t session, received;
} kvl_wire_resume_t;
bool kvl_put_resume(kvl_wbuf_t *w, const kvl_wire_resume_t *m);
kvl_status_t kvl_get_resume(kvl_rbuf_t *r, kvl_wire_resume_t *m);

/* ---- items ---- each put_ adds one item and counts it; each get_ reads the next, in order */
typedef struct {
    const uint8_t *data; /* decoder: points into the message */
    uint8_t length;      /* 1..255 */
} kvl_wire_key_t;

typedef struct {
    uint16_t index; /* place in the request; ascending within a message is not required */
    kvl_wire_key_t key;
    uint64_t length;      /* of the value; > 0 */
    bool has_inline;      /* length bytes follow */
    const uint8_t *bytes; /* with has_inline */
} kvl_reserve_t;

typedef struct {
    uint64_t id;
    uint32_t generation;
    uint32_t region;
    uint64_t offset; /* in the region */
} kvl_wire_lease_t;

typedef struct {
    uint16_t index;
    int32_t status;         /* KVL_OK: leased; with has_inline in the request: stored and visible */
    kvl_wire_lease_t lease; /* zero when stored inline or failed */
} kvl_reserved_t;

typedef struct {
    uint16_t index;
    kvl_wire_key_t key;
} kvl_lookup_t; /* also EXISTS and REMOVE */

typedef struct {
    uint16_t index;
    int32_t status;
    uint64_t length; /* stored length, when found */
    bool has_inline;
    const uint8_t *bytes;
    kvl_wire_lease_t lease;
} kvl_found_t;

typedef struct {
    uint16_t index;
    uint64_t lease;
    uint32_t generation;
    uint64_t length; /* COMMIT: bytes written; must equal the reserved length */
    uint32_t ops;    /* COMMIT: message-mode ops that carry the value, which may still be on their
                        way: the node waits for all its bytes; 0: moved onesided, and flushed */
} kvl_commit_t;      /* also RELEASE and ABORT, length and ops 0 */

typedef struct {
    uint16_t index;
    int32_t status;
    uint64_t length; /* EXISTS_OK: stored length; else 0 */
} kvl_answer_t;      /* COMMITTED, EXISTS_OK, REMOVED */

/* RESERVE and LOOKUP bodies start with the time the client will use the leases at most */
bool kvl_put_ttl(kvl_wbuf_t *w, uint32_t ttl_ms);
kvl_status_t kvl_get_ttl(kvl_rbuf_t *r, uint32_t *ttl_ms_p);

bool kvl_put_reserve(kvl_wbuf_t *w, const kvl_reserve_t *m);
kvl_status_t kvl_get_reserve(kvl_rbuf_t *r, kvl_reserve_t *m);
bool kvl_put_reserved(kvl_wbuf_t *w, const kvl_reserved_t *m);
kvl_status_t kvl_get_reserved(kvl_rbuf_t *r, kvl_reserved_t *m);
bool kvl_put_lookup(kvl_wbuf_t *w, const kvl_lookup_t *m);
kvl_status_t kvl_get_lookup(kvl_rbuf_t *r, kvl_lookup_t *m);
bool kvl_put_found(kvl_wbuf_t *w, const kvl_found_t *m);
kvl_status_t kvl_get_found(kvl_rbuf_t *r, kvl_found_t *m);
bool kvl_put_commit(kvl_wbuf_t *w, const kvl_commit_t *m);
kvl_status_t kvl_get_commit(kvl_rbuf_t *r, kvl_commit_t *m);
bool kvl_put_answer(kvl_wbuf_t *w, const kvl_answer_t *m);
kvl_status_t kvl_get_answer(kvl_rbuf_t *r, kvl_answer_t *m);

#define KVL_WIRE_STATS 16
bool kvl_put_stats(kvl_wbuf_t *w, const uint64_t *values,
                   size_t count); /* count <= KVL_WIRE_STATS */
kvl_status_t kvl_get_stats(kvl_rbuf_t *r, uint64_t values[KVL_WIRE_STATS], size_t *count_p);

typedef struct {
    uint64_t transfer; /* initiator's number of the transfer */
    uint32_t ops;      /* message-mode ops that carried it; the target waits for all */
    bool has_notification;
    uint32_t notification_length;
    const uint8_t *notification; /* decoder: points into the message */
} kvl_xfer_fin_t;
bool kvl_put_xfer_fin(kvl_wbuf_t *w, const kvl_xfer_fin_t *m);
kvl_status_t kvl_get_xfer_fin(kvl_rbuf_t *r, kvl_xfer_fin_t *m);

/* ---- data header: the AM header of PUT, GET and GET_REPLY ---- */
#define KVL_DATA_HEAD_SIZE  56 /* without ranges */
#define KVL_WIRE_RANGES_MAX 64
#define KVL_WIRE_RANGE_SIZE 12
#define KVL_WIRE_RANGES_LENGTH (64u << 10) /* most bytes of an op with ranges: the target packs its replies */
#define KVL_DATA_HEAD_MAX   (KVL_DATA_HEAD_SIZE + KVL_WIRE_RANGES_MAX * KVL_WIRE_RANGE_SIZE)
typedef struct {
    uint64_t offset; /* within the region */
    uint32_t length; /* at least 1 */
} kvl_wire_range_t;
typedef struct {
    uint8_t kind;   /* KVL_AM_PUT, _GET or _GET_REPLY; checked against the AM id by the caller */
    uint8_t scope;  /* 0: token is a lease; 1: token is a region */
    int32_t status; /* GET_REPLY */
    uint64_t op;    /* initiator's number of the op; echoed by the reply */
    uint64_t token; /* lease id, or region id */
    uint32_t generation; /* of the lease */
    uint64_t transfer;   /* scope 1: number of the transfer the op belongs to */
    uint64_t offset;     /* within the leased value, or within the region */
    uint64_t length;     /* bytes of the op */
    /* PUT and GET of scope 1: 0, or so many ranges follow, in the order of the bytes; then offset is 0 and length
     * their sum */
    uint16_t ranges;
    const uint8_t *range_bytes; /* decoder: points into the header */
} kvl_data_head_t;
void kvl_put_data_head(uint8_t out[KVL_DATA_HEAD_SIZE], const kvl_data_head_t *m);
/* range @a i, into the header that begins at @a out */
void kvl_put_data_range(uint8_t *out, unsigned i, const kvl_wire_range_t *range);
kvl_status_t kvl_get_data_head(const void *data, size_t length, kvl_data_head_t *m);
kvl_wire_range_t kvl_get_data_range(const kvl_data_head_t *m, unsigned i); /* i < m->ranges */

/* ---- exported region: the blob of kvl_region_export() ---- */
typedef struct {
    uint64_t nonce; /* of the exporting engine */
    size_t count;   /* slices, at least one */
    kvl_wire_region_t slices[KVL_WIRE_REGIONS_MAX]; /* of one region */
} kvl_region_blob_t;
size_t kvl_region_blob_size(const kvl_region_blob_t *m);
size_t kvl_put_region_blob(void *data, size_t size, const kvl_region_blob_t *m); /* 0: no room */
/* What @a m holds after a failure is of no meaning. */
kvl_status_t kvl_get_region_blob(const void *data, size_t size, kvl_region_blob_t *m);

#endif
