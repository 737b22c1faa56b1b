/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: one table of rows gives the parser, `kvlane_info -c`, and the man page.
 * Values in order of strength: kvl_config_set(), the environment, the default. */
#ifndef KVL_BASE_CONFIG_H
#define KVL_BASE_CONFIG_H

#include <kvlane/engine.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum { KVL_PROGRESS_THREAD, KVL_PROGRESS_CALLER } kvl_progress_mode_t;
/* the order of kvl_affinity_t in rail/choose.h */
typedef enum { KVL_BY_NUMA, KVL_BY_RANK, KVL_BY_NOTHING } kvl_affinity_policy_t;
typedef enum { KVL_SG_AUTO, KVL_SG_ALWAYS, KVL_SG_NEVER } kvl_sg_policy_t;
typedef enum { KVL_GPUDIRECT_AUTO, KVL_GPUDIRECT_OFF } kvl_gpudirect_policy_t;
typedef enum { KVL_MODE_AUTO, KVL_MODE_ONESIDED, KVL_MODE_MESSAGE } kvl_mode_policy_t;

#define KVL_PACK_AUTO UINT64_MAX /* kvl_settings_t.pack_max: kvlane chooses */

/* The parsed values of one engine; read-only after kvl_config_create() and _set(). */
typedef struct {
    unsigned depth;               /* KVLANE_DEPTH 1..256, default 8 */
    unsigned data_depth;          /* KVLANE_DATA_DEPTH 0..256, default 0: same as depth */
    unsigned sg_endpoints;        /* KVLANE_SG_ENDPOINTS 1..64, default 8 */
    kvl_sg_policy_t sg;           /* KVLANE_SG */
    kvl_mode_policy_t mode;       /* KVLANE_MODE */
    kvl_progress_mode_t progress; /* KVLANE_PROGRESS thread|caller */
    const char *rails;            /* KVLANE_RAILS auto|tcp|shm|rdma|DEV,... default auto */
    kvl_affinity_policy_t affinity; /* KVLANE_AFFINITY numa|rank|off */
    const char *rank;             /* KVLANE_RANK, default "": not said */
    unsigned max_rails;           /* KVLANE_MAX_RAILS 0..16, default 0: as many as there may be */
    uint64_t stripe_min;          /* KVLANE_STRIPE_MIN bytes, default 256K */
    int64_t timeout_ns; /* KVLANE_TIMEOUT, default 30s; a duration with unit ms|s|m (bare: s) */
    int64_t connect_timeout_ns; /* KVLANE_CONNECT_TIMEOUT, default 10s */
    int64_t backoff_min_ns;     /* KVLANE_BACKOFF_MIN, default 50ms: first pause between connects */
    int64_t backoff_max_ns;     /* KVLANE_BACKOFF_MAX, default 2s */
    int64_t quiesce_ns;    /* KVLANE_QUIESCE, default 20ms: wait for ops before a forced close */
    int64_t lease_ns;      /* KVLANE_LEASE_MAX, default 120s: longest lease that the node grants */
    int64_t spin_ns;       /* KVLANE_SPIN, default 50us: spin before sleep */
    uint64_t inline_max;   /* KVLANE_INLINE_MAX bytes 0..8192, default 1024 */
    uint64_t chunk_bytes;  /* KVLANE_CHUNK 64K..64M, default 8M: longest op */
    uint64_t pack_max;     /* KVLANE_PACK_MAX: onesided: segments up to this are packed; auto */
    uint64_t reg_slice;    /* KVLANE_REG_SLICE bytes 2M..1T, default 3584M: longest registration */
    uint64_t pin_max;      /* KVLANE_PIN_MAX bytes registered in the process, default 0: no limit */
    const char *numa_node; /* KVLANE_NUMA_NODE auto|off|N, default auto */
    kvl_gpudirect_policy_t gpudirect; /* KVLANE_GPUDIRECT auto|off */
    uint64_t stage_bytes;  /* KVLANE_STAGE_SIZE bytes 2M..1T, default 64M */
    const char *cuda_library; /* KVLANE_CUDA_LIBRARY, default "": what the process has */
    uint64_t max_sessions; /* KVLANE_MAX_SESSIONS, node, default 1024 */
    uint64_t max_leases;   /* KVLANE_MAX_LEASES a session, default 65536 */
    unsigned log_level;    /* KVLANE_LOG_LEVEL fatal|error|warn|info|debug|trace */
    const char *fault;     /* KVLANE_FAULT */
    uint64_t fault_seed;   /* KVLANE_FAULT_SEED */
} kvl_settings_t;

const kvl_settings_t *kvl_config_settings(const kvl_config_t *config);

/* a deep copy; NULL source: as kvl_config_create() */
kvl_status_t kvl_config_copy(const kvl_config_t *source, kvl_config_t **config_p);

/* The UCX names of the user, from the environment and from kvl_config_set("KVLANE_UCX_TLS", ...):
 * all KVLANE_UCX_* (ctrl false) or KVLANE_CTRL_UCX_* (ctrl true); name without its prefix ("TLS").
 * index runs from 0; false after the last. Pointers live as long as config. */
bool kvl_config_ucx(const kvl_config_t *config, bool ctrl, size_t index, const char **name_p,
                    const char **value_p);

/* Sets the log level and installs the fault rules, each only if it is not the default. Called by
 * the engine when it is created. */
void kvl_config_apply_process(const kvl_config_t *config);

/* Parsers that tools share; error texts name @a what and @a text. */
kvl_status_t kvl_parse_bytes(const char *what, const char *text, uint64_t *bytes_p); /* 64K 1G */
kvl_status_t kvl_parse_duration(const char *what, const char *text, int64_t *ns_p);  /* 2ms 30s */

#endif
