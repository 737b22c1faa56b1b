/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/imports.h"
#include "ucx/private.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

/* A failed send over tcp is told by the receiving half alone.
 *
 * When a peer resets its connection while a long message to it is half sent, UCX may learn of it from
 * sendmsg() before recv(): it then completes that message twice (uct_tcp_ep_sendv, every version up to 1.23
 * at least), which ends the process where assertions are compiled in (Debian: uct_iface.h `comp->count > 0'),
 * and may complete somebody else's request where they are not. Learned from recv(), the same reset is handled
 * right, and recv() always tells: UCX reads each socket before it writes to it, and a reset socket stays
 * readable.
 *
 * So libucs's calls of sendmsg() are led through here, in its table of imported functions, and a reset is
 * answered as "full, try later" (EAGAIN) a limited number of times in a row: UCX then waits for the socket,
 * hears of the reset from recv(), and stops. The table is put right again when kvlane is unloaded. Its calls of
 * send() are left alone: connections are made with them, and an answer to a client that is gone must fail, or
 * its file stays open for good. */

#define RESETS_IN_A_ROW 64

typedef ssize_t (*sendmsg_func_t)(int fd, const struct msghdr *message, int flags);

static ssize_t sendmsg_later(int fd, const struct msghdr *message, int flags);

static kvl_import_t import = {.library = "libucs.so", .symbol = "sendmsg", .ours = (void *)sendmsg_later};

static ssize_t sendmsg_later(int fd, const struct msghdr *message, int flags)
{
    static _Thread_local int last_fd = -1; /* of the last reset */
    static _Thread_local unsigned resets;
    ssize_t result = ((sendmsg_func_t)import.theirs)(fd, message, flags);

    if (result >= 0) {
        last_fd = fd == last_fd ? -1 : last_fd;
    } else if (errno == ECONNRESET || errno == EPIPE) {
        resets  = fd == last_fd ? resets + 1 : 1;
        last_fd = fd;
        errno   = resets <= RESETS_IN_A_ROW ? EAGAIN : errno;
    }
    return result;
}

static void sends_take(void)
{
    (void)kvl_import_lead(&import);
}

void kvl_ucx_sends_guard(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, sends_take);
}

bool kvl_ucx_sends_guarded(void)
{
    return import.slot != NULL;
}

__attribute__((destructor)) static void sends_give_back(void)
{
    kvl_import_give_back(&import);
}
