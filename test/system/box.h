/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of the system tests: nodes (kvlaned) and clients (system_client), each a child of its own
 * that ends with the test program; and a client of such a node inside the test program. Everything that
 * waits has an end; what did not happen until then fails the test. */
#ifndef KVL_SYSTEM_BOX_H
#define KVL_SYSTEM_BOX_H

#include "shim/shim.h"

#include "system/pattern.h"

#include <kvlane/cache.h>

#include <stdint.h>
#include <sys/types.h>

#define BOX_SETTINGS 12

/* Environment of a child, or settings of an engine; ends with a NULL name. */
typedef struct {
    const char *name, *value;
} box_setting_t;

typedef struct {
    pid_t pid; /* 0: not running */
    int out;   /* read end of its stdout */
} box_child_t;

/* argv ends with NULL; argv[0] is a path. stderr goes to system_children.log in the build folder. */
void box_spawn(box_child_t *child, const char *const *argv, const box_setting_t *settings);
/* One line of its stdout, without the newline; false after @a ms, or at the end of the output. */
bool box_line(box_child_t *child, char *line, size_t size, int64_t ms);
/* Reads single bytes of its stdout until @a count were @a mark; false after @a ms. */
bool box_marks(box_child_t *child, char mark, unsigned count, int64_t ms);
void box_stop(box_child_t *child); /* returns when it is stopped */
void box_continue(box_child_t *child);
void box_kill(box_child_t *child); /* SIGKILL, and waits until it is gone */
/* Waits for its end: the exit code, 256 + the signal, or -1 if it still runs after @a ms. */
int box_wait(box_child_t *child, int64_t ms);
bool box_runs(const box_child_t *child);
/* Kills what a test that failed left behind: for TEARDOWN. */
void box_kill_all(void);

typedef struct {
    unsigned fds;
    uint64_t rss_bytes;
    uint64_t own_bytes; /* ... of it what it shares with nobody */
} box_usage_t;

box_usage_t box_usage(pid_t pid);

/* ---- a node ---- */
typedef struct {
    box_child_t child;
    const char *memory; /* -m */
    box_setting_t settings[BOX_SETTINGS];
    char address[64];
} box_node_t;

/* rails: KVLANE_RAILS. more may be NULL. Starts again at the same address if there is one. */
void box_node_set(box_node_t *node, const char *rails, const char *memory,
                  const box_setting_t *more);
void box_node_start(box_node_t *node);
bool box_node_try(box_node_t *node); /* false if it did not come up: it has ended or does so */
void box_node_end(box_node_t *node); /* SIGTERM; it must end with 0 */

/* ---- a client in the test program ---- */
typedef struct {
    kvl_engine_t *engine;
    kvl_cache_t *cache;
    kvl_region_t *region;
    uint8_t *pool;
    size_t pool_bytes;
} box_client_t;

/* start: does not wait for the connection. */
void box_client_start(box_client_t *client, const char *address, size_t pool_bytes,
                      const box_setting_t *settings);
void box_client_open(box_client_t *client, const char *address, size_t pool_bytes,
                     const box_setting_t *settings);
void box_client_close(box_client_t *client);
/* Submits, waits, releases; statuses may be NULL. */
kvl_status_t box_run(box_client_t *client, kvl_cache_op_t op, const kvl_item_t *items, size_t count,
                     int64_t timeout_ms, kvl_status_t *statuses);
/* One value of one segment at the start of the pool. */
kvl_status_t box_put(box_client_t *client, const char *key, size_t length);
kvl_status_t box_get(box_client_t *client, const char *key, size_t length);
/* Small ops until one is OK, for at most @a ms; then @a count more, which must be. */
void box_works_again(box_client_t *client, int64_t ms, unsigned count);
/* Asks the node until it holds no lease, no quarantined slot and @a sessions sessions; fails the test,
 * and says what there still is, after @a ms. */
kvl_node_stat_t box_until_quiet(box_client_t *client, uint64_t sessions, int64_t ms);
kvl_node_stat_t box_stat(box_client_t *client);

/* ---- small things ---- */
int64_t box_now_ms(void);
void box_pause_us(unsigned us); /* between two looks; never instead of a condition */
unsigned box_number(const char *variable, unsigned otherwise);
void box_hold(void); /* something hangs: with KVLANE_TEST_HOLD set, waits for a debugger */
uint64_t box_random(uint64_t *state);

#endif
