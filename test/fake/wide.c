/* SPDX-License-Identifier: BSD-3-Clause */
/* LD_PRELOAD: UCX takes its time where it gives a connection to a worker or takes it away, so that events of
 * other connections come in between; what is rare by itself is met in a second. */
#include <dlfcn.h>
#include <time.h>
#include <ucs/async/async_fwd.h>

#define TIME_NS 300000

static void take_time(void)
{
    nanosleep(&(struct timespec){.tv_nsec = TIME_NS}, NULL);
}

typedef ucs_status_t (*set_func_t)(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events,
                                   ucs_async_event_cb_t callback, void *arg, ucs_async_context_t *async);
typedef ucs_status_t (*remove_func_t)(int id, int is_sync);

ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t mode, int fd, ucs_event_set_types_t events,
                                         ucs_async_event_cb_t callback, void *arg, ucs_async_context_t *async)
{
    set_func_t theirs   = (set_func_t)dlsym(RTLD_NEXT, "ucs_async_set_event_handler");
    ucs_status_t status = theirs(mode, fd, events, callback, arg, async);

    take_time();
    return status;
}

ucs_status_t ucs_async_remove_handler(int id, int is_sync)
{
    remove_func_t theirs = (remove_func_t)dlsym(RTLD_NEXT, "ucs_async_remove_handler");

    take_time();
    return theirs(id, is_sync);
}
