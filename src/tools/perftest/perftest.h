/* SPDX-License-Identifier: BSD-3-Clause */
/* kvlane_perftest: what all of its files share. Functions return 0, or -1 after they have said on
 * stderr what went wrong (perf_fail); wrong bytes are no failure here, they are counted. */
#ifndef KVL_PERFTEST_PERFTEST_H
#define KVL_PERFTEST_PERFTEST_H

#include <kvlane/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PERF_PROGRAM      "kvlane_perftest"
#define PERF_DEFAULT_PORT 13338
#define PERF_GB           1e9

typedef struct perf_options perf_options_t;
typedef struct perf_result perf_result_t;

/* Who is at the other side of a test. */
typedef enum {
    PERF_PEER_NONE, /* nobody: memcpy */
    PERF_PEER_NODE, /* a cache node: a perftest server, or kvlaned */
    PERF_PEER_RAW   /* the plain UCP loop of a perftest server */
} perf_peer_t;

/* Defaults depend on the test, so they stand in its row. */
typedef struct {
    const char *name;
    const char *doc;
    perf_peer_t peer;
    int (*run)(const perf_options_t *options, perf_result_t *result);
    uint64_t size;     /* default of one segment, bytes */
    unsigned segments; /* default number of segments of an item */
    unsigned batch;    /* default number of items of a batch */
    bool many_batches; /* items default to a number of batches, not to a number of bytes */
} perf_test_t;

/* constant after perf_options_parse() */
struct perf_options {
    const perf_test_t *test;
    const char *tests; /* the text of -t: one name, or several with commas */
    uint64_t size;     /* bytes of one segment */
    unsigned segments;
    uint64_t items, warmup;
    unsigned depth; /* as given or from the environment; the one in force is negotiated */
    unsigned batch;
    unsigned endpoints;  /* of the sg lane, as given or from the environment */
    uint64_t node_bytes; /* -m */
    double seconds_max;  /* -T; 0: no limit */
    const char *rails;   /* -x, or KVLANE_RAILS, or "auto" */
    char host[256];      /* "" : server */
    unsigned port;
    bool port_given;
    bool local;      /* -l */
    bool keep;       /* -k */
    bool final_only; /* -f */
    bool csv, json, verify;
    const char *plot; /* file name, or NULL */
    /* retrieve */
    uint64_t tokens, page_tokens, layers, token_layer_bytes;
    /* trace */
    const char *trace;
    uint64_t block_bytes; /* 0: size x segments */
    uint64_t requests;    /* 0: all */
    /* between the processes of one run */
    bool child; /* server or mover started by another perftest */
    bool mover;
    int responder_fd; /* >= 0: plain UCP responder that is controlled over this socket */
    /* for tests of the tool itself */
    uint64_t corrupt; /* flip one byte of every n-th item before it is verified */
    char **argv;
    int argc;
};

struct perf_result {
    const char *test;
    char transport[64], mode[32];
    char lanes[512]; /* for people: which lane uses what */
    uint64_t size, items, bytes;
    unsigned segments, batch, depth, endpoints;
    double seconds;                /* timed parts only */
    double p50_us, p99_us;         /* of a batch */
    double cpu_client, cpu_server; /* seconds in the timed parts; server < 0: unknown */
    uint64_t verified_bytes, wrong_bytes;
    uint64_t failed_items; /* answered otherwise than they had to be */
    bool has_exists;
    double idle_p50_us, idle_p99_us, bulk_p50_us, bulk_p99_us;
    bool has_retrieve;
    uint64_t tokens;
    double lookup_seconds, tokens_per_s;
    bool has_trace;
    uint64_t requests, hits, blocks;
    double lookup_p50_us, lookup_p99_us, get_p50_us, get_p99_us, put_p50_us, put_p99_us;
};

/* set by SIGINT and SIGTERM; long loops look at it */
bool perf_stopped(void);

int perf_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *perf_failure(void); /* what the first perf_fail() said */
void perf_in_json(void);        /* the watchdog says it in JSON too */
/* What kvlane says of a call that failed; a bad setting or address is wrong usage then. */
int perf_refused(kvl_status_t status);
void perf_misused(void);
/* KVL_EXIT_OK for 0, else whether it failed or was used wrongly */
int perf_exit_code(int status);
void perf_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

double perf_now(void);      /* monotonic seconds */
double perf_cpu_self(void); /* user + system seconds of this process */

/* A start-up must not hang: after @a seconds without perf_watchdog_off() the process says what it
 * was waiting for and exits with 1. */
void perf_watchdog(const char *what, unsigned seconds);
void perf_watchdog_off(void);

/* sends a byte count as "2.75M" */
void perf_format_bytes(uint64_t bytes, char *text, size_t size);

static inline uint64_t perf_item_bytes(const perf_options_t *options)
{
    return options->size * options->segments;
}

/* the table of tests (tests.c) */
const perf_test_t *perf_test_find(const char *name);
void perf_test_list(FILE *stream);

/* tests */
int perf_run_memcpy(const perf_options_t *options, perf_result_t *result);
int perf_run_raw(const perf_options_t *options, perf_result_t *result);
int perf_run_put(const perf_options_t *options, perf_result_t *result);
int perf_run_get(const perf_options_t *options, perf_result_t *result);
int perf_run_exists(const perf_options_t *options, perf_result_t *result);
int perf_run_mixed(const perf_options_t *options, perf_result_t *result);
int perf_run_retrieve(const perf_options_t *options, perf_result_t *result);
int perf_run_trace(const perf_options_t *options, perf_result_t *result);

#endif
