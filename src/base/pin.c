/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pin.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

/* One count for the process: the limit is about the machine's memory, whoever asks. Who comes later waits
 * behind who waits already, or many small ones would starve a large one. */

/* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static kvl_list_t turns; /* threads that wait, in order */
static unsigned turn_count;
static uint64_t used_bytes;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void pin_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
    kvl_list_init(&turns);
}

/* until it is this thread's turn and no more than @a room bytes are used; false: the time is up */
static bool pin_wait(uint64_t room, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / KVL_SECOND, .tv_nsec = until_ns % KVL_SECOND};
    kvl_list_t mine;
    bool fits;
    int rc = 0;

    kvl_list_push_back(&turns, &mine);
    turn_count++;
    while (!(fits = turns.next == &mine && used_bytes <= room) && rc != ETIMEDOUT) {
        rc = pthread_cond_timedwait(&changed, &lock, &until);
    }
    kvl_list_remove(&mine);
    turn_count--;
    pthread_cond_broadcast(&changed); /* the next one's turn */
    return fits;
}

kvl_status_t kvl_pin_take(uint64_t bytes, uint64_t limit, int64_t until_ns)
{
    bool fits = true, first;
    uint64_t used;

    pthread_once(&once, pin_init);
    pthread_mutex_lock(&lock);
    first = kvl_list_empty(&turns);
    used  = used_bytes;
    if (limit && (bytes > limit || !first || used > limit - bytes)) {
        fits = bytes <= limit && pin_wait(limit - bytes, until_ns);
        used = used_bytes;
    }
    if (fits) {
        used_bytes += bytes;
    }
    pthread_mutex_unlock(&lock);
    return fits ? KVL_OK
                : kvl_error(KVL_ERR_LIMIT,
                            "KVLANE_PIN_MAX is %" PRIu64 " bytes: %" PRIu64 " more do not fit to the %" PRIu64
                            " that this process has registered%s; release regions, or raise it",
                            limit, bytes, used, bytes > limit ? "" : " and did not give back in time");
}

void kvl_pin_give(uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    used_bytes -= bytes;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

uint64_t kvl_pin_used(void)
{
    uint64_t used;

    pthread_mutex_lock(&lock);
    used = used_bytes;
    pthread_mutex_unlock(&lock);
    return used;
}

unsigned kvl_pin_waiting(void)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    count = turn_count;
    pthread_mutex_unlock(&lock);
    return count;
}
