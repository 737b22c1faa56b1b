/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/imports.h"
#include "ucx/private.h"

#include "base/files.h"
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucs/async/async_fwd.h>
#include <unistd.h>

/* An event of one connection never meets another one, nor the same one at another worker.
 *
 * What happens to a connection while UCX is busy with its worker is noted in a queue of that worker, by the
 * number of the socket, until the worker is progressed (ucs/async, every version up to 1.23 at least). A number
 * that passes on meanwhile takes the old event along: to a connection that is not ready for it, or to one of
 * another worker, which two threads then drive at once. Debian's UCX 1.13 asserts and ends the process (async.c,
 * `handler->async == async'; tcp_sockcm_ep.c:416); builds without assertions go on. A number passes on in two
 * ways, and each is led through here, in libuct's table of imported functions:
 *
 * - A node accepts connections for other workers than its listener's. Where UCX hands a socket over
 *   (ucs_async_set_event_handler), the worker it came from forgets what it noted: UCX holds that worker then,
 *   and does not know the socket at any worker.
 * - A socket is closed (ucs_close_fd), and the kernel gives its number to the next. So the number stays with a
 *   file of no meaning until its worker was progressed once more. At most HELD_MAX numbers wait, and some files are
 *   left for others; what comes then is closed as ever, and so is what belongs to no worker of kvlane's. */

#define HELD_MAX   1024 /* more than are closed between two turns of a worker */
#define FILES_LEFT 64   /* for others, before a number is kept */
#define ASYNC_SPAN 4096 /* UCX's side of a worker lies in its ucp_worker, near the beginning (1.13 to 1.23) */

typedef struct {
    int fd;
    kvl_worker_t *worker; /* that may have an event of it */
    uint64_t at;          /* which of that worker's it is */
} held_t;

typedef ucs_status_t (*set_handler_func_t)(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events,
                                           ucs_async_event_cb_t callback, void *arg,
                                           ucs_async_context_t *async);

static ucs_status_t set_handler(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events,
                                ucs_async_event_cb_t callback, void *arg, ucs_async_context_t *async);
static void close_later(int *fd_p);

static kvl_import_t set_import   = {.library = "libuct.so",
                                    .symbol  = "ucs_async_set_event_handler",
                                    .ours    = (void *)set_handler};
static kvl_import_t close_import = {.library = "libuct.so", .symbol = "ucs_close_fd", .ours = (void *)close_later};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static ucs_async_context_t **owners;                     /* of each number: UCX's side of a worker, or NULL */
static size_t owner_count;
static held_t held[HELD_MAX]; /* in order */
static unsigned held_count;
static kvl_list_t workers = {&workers, &workers}; /* kvl_worker_t by `peers' */
static int nothing        = -1;                   /* the file that keeps a number; open while there are workers */

/* Returns whose it was; NULL: nobody's. */
static ucs_async_context_t *owner_change(int fd, ucs_async_context_t *async)
{
    ucs_async_context_t *before, **more;
    size_t i, count = (size_t)fd + 1;

    if (count > owner_count && async) {
        count = count < 2 * owner_count ? 2 * owner_count : count;
        /* not kvl_realloc(): threads of UCX come here, and faults are counted by those of kvlane */
        more = realloc(owners, count * sizeof(*more));
        if (!more) {
            return NULL;
        }
        for (i = owner_count; i < count; i++) {
            more[i] = NULL;
        }
        owners      = more;
        owner_count = count;
    }
    if ((size_t)fd >= owner_count) {
        return NULL;
    }
    before     = owners[fd];
    owners[fd] = async;
    return before;
}

/* under lock; NULL: it is not ours, or lies elsewhere in this UCX */
static kvl_worker_t *worker_of(const ucs_async_context_t *async)
{
    for (kvl_list_t *node = workers.next; node != &workers; node = node->next) {
        kvl_worker_t *worker = kvl_container(node, kvl_worker_t, peers);

        if ((uintptr_t)async - (uintptr_t)worker->ucp < ASYNC_SPAN) {
            return worker;
        }
    }
    return NULL;
}

static ucs_status_t set_handler(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events,
                                ucs_async_event_cb_t callback, void *arg, ucs_async_context_t *async)
{
    ucs_async_context_t *before = NULL;

    if (fd >= 0) {
        pthread_mutex_lock(&lock);
        before = owner_change(fd, async);
        before = worker_of(before) ? before : NULL; /* it lives */
        pthread_mutex_unlock(&lock);
    }
    if (before && before != async) {
        __ucs_async_poll_missed(before);
    }
    return ((set_handler_func_t)set_import.theirs)(mode, fd, events, callback, arg, async);
}

static bool number_keep(int fd, kvl_worker_t *worker)
{
    if (!worker || held_count == HELD_MAX || nothing < 0 || !kvl_files_left(FILES_LEFT) ||
        dup3(nothing, fd, O_CLOEXEC) != fd) {
        return false;
    }
    held[held_count++] = (held_t){fd, worker, atomic_fetch_add(&worker->closes, 1) + 1};
    return true;
}

static void close_later(int *fd_p)
{
    int fd = *fd_p;

    if (fd < 0) {
        return;
    }
    *fd_p = -1;
    pthread_mutex_lock(&lock);
    if (!number_keep(fd, worker_of(owner_change(fd, NULL))) && close(fd)) {
        kvl_debug("close of a socket: %m");
    }
    pthread_mutex_unlock(&lock);
}

/* under lock: lets go of the worker's numbers up to @a seen */
static void numbers_release(const kvl_worker_t *worker, uint64_t seen)
{
    unsigned i, kept = 0;

    for (i = 0; i < held_count; i++) {
        if (held[i].worker != worker || held[i].at > seen) {
            held[kept++] = held[i];
        } else {
            close(held[i].fd);
        }
    }
    held_count = kept;
}

void kvl_events_seen(kvl_worker_t *worker, uint64_t seen)
{
    pthread_mutex_lock(&lock);
    worker->seen = seen;
    numbers_release(worker, seen);
    pthread_mutex_unlock(&lock);
}

unsigned kvl_ucx_events_held(void)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    count = held_count;
    pthread_mutex_unlock(&lock);
    return count;
}

void kvl_events_watch(kvl_worker_t *worker)
{
    pthread_mutex_lock(&lock);
    if (nothing < 0) {
        nothing = open("/", O_PATH | O_CLOEXEC);
    }
    kvl_list_push_back(&workers, &worker->peers);
    pthread_mutex_unlock(&lock);
}

void kvl_events_unwatch(kvl_worker_t *worker)
{
    pthread_mutex_lock(&lock);
    kvl_list_remove(&worker->peers);
    numbers_release(worker, UINT64_MAX); /* it has no events any more */
    if (kvl_list_empty(&workers) && nothing >= 0) {
        close(nothing);
        nothing = -1;
    }
    pthread_mutex_unlock(&lock);
}

static void events_take(void)
{
    if (kvl_import_lead(&set_import) && !kvl_import_lead(&close_import)) {
        kvl_import_give_back(&set_import); /* it counts on hearing of each close */
    }
}

void kvl_ucx_events_guard(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, events_take);
}

bool kvl_ucx_events_guarded(void)
{
    return set_import.slot != NULL;
}

__attribute__((destructor)) static void events_give_back(void)
{
    kvl_import_give_back(&close_import);
    kvl_import_give_back(&set_import);
    free(owners);
}
