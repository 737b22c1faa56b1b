/* SPDX-License-Identifier: BSD-3-Clause */
/* The one list of settings. The parser, kvl_config_print() and the man page come from it. */
#include "base/config_row.h"

#include <string.h>

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define HOUR   (3600 * SECOND)
#define KIB    UINT64_C(1024)
#define MIB    (1024 * KIB)

static const char *const sg_choices[]       = {"auto", "always", "never", NULL};
static const char *const mode_choices[]     = {"auto", "onesided", "message", NULL};
static const char *const progress_choices[] = {"thread", "caller", NULL};
static const char *const affinity_choices[] = {"numa", "rank", "off", NULL};
static const char *const gpudirect_choices[] = {"auto", "off", NULL};
static const char *const log_choices[] = {"fatal", "error", "warn", "info", "debug", "trace", NULL};

#define FIELD(member) offsetof(kvl_settings_t, member)

const kvl_row_t kvl_rows[KVL_ROWS] = {
    {"KVLANE_DEPTH", KVL_ROW_COUNT, "8", 1, 256, NULL, FIELD(depth),
     "Items of one peer that move at the same time; the smaller of both sides' values counts."},
    {"KVLANE_DATA_DEPTH", KVL_ROW_COUNT, "0", 0, 256, NULL, FIELD(data_depth),
     "Outstanding operations of a data endpoint; 0: as KVLANE_DEPTH."},
    {"KVLANE_SG_ENDPOINTS", KVL_ROW_COUNT, "8", 1, 64, NULL, FIELD(sg_endpoints),
     "Endpoints per peer and rail for items of many segments; each carries one operation at a time."},
    {"KVLANE_SG", KVL_ROW_CHOICE, "auto", 0, 0, sg_choices, FIELD(sg),
     "Which items take the sg lane: those of several segments (auto), all, or none."},
    {"KVLANE_MODE", KVL_ROW_CHOICE, "auto", 0, 0, mode_choices, FIELD(mode),
     "How bytes move: by remote memory access (onesided) or active messages; auto asks the "
     "connection's transports."},
    {"KVLANE_PROGRESS", KVL_ROW_CHOICE, "thread", 0, 0, progress_choices, FIELD(progress),
     "Who drives the engine: a thread of its own, or the caller with kvl_engine_progress()."},
    {"KVLANE_RAILS", KVL_ROW_RAILS, "auto", 0, 0, NULL, FIELD(rails),
     "Rails to use: auto, tcp, shm, rdma, or devices such as mlx5_0:1,eth0; or those not to use, as in "
     "^eth0."},
    {"KVLANE_AFFINITY", KVL_ROW_CHOICE, "numa", 0, 0, affinity_choices, FIELD(affinity),
     "Which of several rails: the nearest to the memory (numa), the one that the process's rank counts "
     "out (rank), all (off)."},
    {"KVLANE_RANK", KVL_ROW_TEXT, "", 0, 0, NULL, FIELD(rank),
     "For KVLANE_AFFINITY=rank: number of this process among those of its host; empty: as the "
     "framework or launcher says."},
    {"KVLANE_MAX_RAILS", KVL_ROW_COUNT, "0", 0, 16, NULL, FIELD(max_rails),
     "Most network rails to use; 0: 16."},
    {"KVLANE_STRIPE_MIN", KVL_ROW_BYTES, "256K", 4 * KIB, 64 * MIB, NULL, FIELD(stripe_min),
     "With several rails: values larger than this are cut in pieces of at least this many bytes, which "
     "take different rails."},
    {"KVLANE_TIMEOUT", KVL_ROW_DURATION, "30s", 1 * MS, 24 * HOUR, NULL, FIELD(timeout_ns),
     "Deadline of a batch that brings none of its own; a bare number means seconds."},
    {"KVLANE_CONNECT_TIMEOUT", KVL_ROW_DURATION, "10s", 1 * MS, 1 * HOUR, NULL,
     FIELD(connect_timeout_ns),
     "Time for one attempt to connect and shake hands; a bare number means seconds."},
    {"KVLANE_BACKOFF_MIN", KVL_ROW_DURATION, "50ms", 1 * MS, 1 * HOUR, NULL, FIELD(backoff_min_ns),
     "First pause between attempts to connect; it doubles; a bare number means seconds."},
    {"KVLANE_BACKOFF_MAX", KVL_ROW_DURATION, "2s", 1 * MS, 1 * HOUR, NULL, FIELD(backoff_max_ns),
     "Longest pause between attempts to connect; a bare number means seconds."},
    {"KVLANE_QUIESCE", KVL_ROW_DURATION, "20ms", 0, 60 * SECOND, NULL, FIELD(quiesce_ns),
     "How long a batch that ends early waits for its operations before their endpoints are closed "
     "by force; a bare number means seconds."},
    {"KVLANE_LEASE_MAX", KVL_ROW_DURATION, "120s", 1 * MS, 24 * HOUR, NULL, FIELD(lease_ns),
     "Longest lease that the node grants; a bare number means seconds."},
    {"KVLANE_SPIN", KVL_ROW_DURATION, "50us", 0, 1 * SECOND, NULL, FIELD(spin_ns),
     "How long an idle engine polls before it sleeps; a bare number means seconds."},
    {"KVLANE_INLINE_MAX", KVL_ROW_BYTES, "1K", 0, 8 * KIB, NULL, FIELD(inline_max),
     "Values up to this many bytes ride inside the control message."},
    {"KVLANE_CHUNK", KVL_ROW_BYTES, "8M", 64 * KIB, 64 * MIB, NULL, FIELD(chunk_bytes),
     "Longest operation; longer segments are cut."},
    {"KVLANE_PACK_MAX", KVL_ROW_PACK, "auto", 0, 64 * MIB, NULL, FIELD(pack_max),
     "Onesided: segments up to this many bytes are packed into one operation; 0: none."},
    {"KVLANE_REG_SLICE", KVL_ROW_BYTES, "3584M", 2 * MIB, UINT64_C(1) << 40, NULL, FIELD(reg_slice),
     "Longest registration, a multiple of 2 MiB: longer regions are registered in slices."},
    {"KVLANE_PIN_MAX", KVL_ROW_BYTES, "0", 0, UINT64_C(1) << 50, NULL, FIELD(pin_max),
     "Most memory that the process may have registered, over all its engines; 0: no limit. At the limit a "
     "registration waits, up to KVLANE_TIMEOUT."},
    {"KVLANE_NUMA_NODE", KVL_ROW_TEXT, "auto", 0, 0, NULL, FIELD(numa_node),
     "NUMA node that memory is allocated on, where it has room: a number; auto: that of the process's CPUs or "
     "else of the rails, if it is one; off: as the system likes."},
    {"KVLANE_GPUDIRECT", KVL_ROW_CHOICE, "auto", 0, 0, gpudirect_choices, FIELD(gpudirect),
     "Device memory: straight to and from the rails whose self-test with it passes, where UCX can (auto: over RDMA, from "
     "UCX 1.19 on, with 1.16 to 1.18 if KVLANE_UCX_PROTO_ENABLE=y), or always through host memory (off)."},
    {"KVLANE_STAGE_SIZE", KVL_ROW_BYTES, "64M", 2 * MIB, UINT64_C(1) << 40, NULL, FIELD(stage_bytes),
     "Host memory that device memory goes through, of an engine that has some registered."},
    {"KVLANE_CUDA_LIBRARY", KVL_ROW_TEXT, "", 0, 0, NULL, FIELD(cuda_library),
     "The CUDA driver's library; empty: the one that the process has loaded; process-wide, the first one counts."},
    {"KVLANE_MAX_SESSIONS", KVL_ROW_NUMBER, "1024", 1, 65535, NULL, FIELD(max_sessions),
     "Sessions that a node holds at the same time."},
    {"KVLANE_MAX_LEASES", KVL_ROW_NUMBER, "65536", 1, UINT64_C(1) << 24, NULL, FIELD(max_leases),
     "Leases that a node grants one session at the same time."},
    {"KVLANE_LOG_LEVEL", KVL_ROW_CHOICE, "warn", 0, 0, log_choices, FIELD(log_level),
     "Least severe messages that go to stderr; process-wide."},
    {"KVLANE_FAULT", KVL_ROW_FAULT, "", 0, 0, NULL, FIELD(fault),
     "Faults to inject, such as ep.put:fail@17; for tests; process-wide."},
    {"KVLANE_FAULT_SEED", KVL_ROW_NUMBER, "0", 0, UINT64_MAX, NULL, FIELD(fault_seed),
     "Seed of the faults that come at a share of hits (%P)."},
};

size_t kvl_row_find(const char *name)
{
    size_t i;

    for (i = 0; i < KVL_ROWS; i++) {
        if (strcmp(kvl_rows[i].name, name) == 0) {
            break;
        }
    }
    return i;
}

#define NAME_SIZE 48

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return least < c ? least : c;
}

/* Levenshtein's distance, one row of the matrix at a time; @a b is shorter than NAME_SIZE */
static unsigned name_distance(const char *a, const char *b)
{
    unsigned row[NAME_SIZE];
    size_t i, j, length = strlen(b);

    for (j = 0; j <= length; j++) {
        row[j] = (unsigned)j;
    }
    for (i = 0; a[i]; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i + 1;
        for (j = 1; j <= length; j++) {
            unsigned above = row[j];

            row[j]   = min3(above + 1, row[j - 1] + 1, diagonal + (a[i] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[length];
}

const char *kvl_row_closest(const char *name)
{
    size_t i, length = strlen(name);
    const char *closest = NULL;
    unsigned least;

    /* one slip for a short word past "KVLANE_", else two: beyond, it is another word */
    least = length >= 12 ? 3 : length >= 10 ? 2 : 1;

    for (i = 0; i < KVL_ROWS; i++) {
        unsigned distance = name_distance(name, kvl_rows[i].name);

        if (distance < least) {
            least   = distance;
            closest = kvl_rows[i].name;
        }
    }
    return closest;
}
