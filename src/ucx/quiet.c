/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Before a listener is destroyed nobody may be at its door. UCX's tcp connection manager leaves a
 * connection that was accepted and did not bring its request yet behind, with a pointer to the listener's
 * freed memory: one more packet of that client, and UCX's own thread crashes (1.13.1, and by its source
 * also later ones). UCX offers no way to ask or to wait, the kernel does: the listener's socket takes no
 * new connection (a filter drops the SYN: the client's kernel tries again in a second, and finds the next
 * listener or none), UCX's thread accepts those that are queued, and those get an end of file, upon which
 * UCX drops them. */

#define QUIET_TIMEOUT KVL_SECOND

/* What a socket of this process is to the listener. */
typedef enum { SOCKET_OTHER, SOCKET_LISTENS, SOCKET_CONNECTED } socket_kind_t;

/* Is local an address that a listener at addr takes connections at? */
static bool addr_covers(const kvl_addr_t *addr, const struct sockaddr_storage *local)
{
    const struct sockaddr_in *in4 = (const void *)&addr->storage, *local4 = (const void *)local;
    const struct sockaddr_in6 *in6 = (const void *)&addr->storage, *local6 = (const void *)local;

    if (local->ss_family != addr->storage.ss_family) {
        return false;
    }
    if (local->ss_family == AF_INET) {
        return local4->sin_port == in4->sin_port && (in4->sin_addr.s_addr == htonl(INADDR_ANY) ||
                                                     in4->sin_addr.s_addr == local4->sin_addr.s_addr);
    }
    return local->ss_family == AF_INET6 && local6->sin6_port == in6->sin6_port &&
           (IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) ||
            IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &local6->sin6_addr));
}

static socket_kind_t socket_kind(const kvl_addr_t *addr, int fd)
{
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
    socklen_t length              = sizeof(local);
    int listens                   = 0, type = 0;
    socklen_t size                = sizeof(listens);

    if (getsockname(fd, (struct sockaddr *)&local, &length) || !addr_covers(addr, &local) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size)) {
        return SOCKET_OTHER;
    }
    return listens ? SOCKET_LISTENS : SOCKET_CONNECTED;
}

static void socket_deafen(int fd)
{
    struct sock_filter drop   = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &drop};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program))) {
        kvl_debug("listener: no filter on its socket");
    }
}

/* Tells everybody at the door to go; returns how many there are, queued ones included. */
static unsigned door_clear(const kvl_addr_t *addr, bool first)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    unsigned n = 0;

    while (dir && (entry = readdir(dir)) != NULL) {
        struct pollfd queue = {.fd = atoi(entry->d_name), .events = POLLIN};

        switch (socket_kind(addr, queue.fd)) {
        case SOCKET_LISTENS:
            if (first) {
                socket_deafen(queue.fd);
            }
            n += poll(&queue, 1, 0) == 1;
            break;
        case SOCKET_CONNECTED:
            shutdown(queue.fd, SHUT_RDWR);
            n++;
            break;
        default:
            break;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

void kvl_ucx_listener_quiet(kvl_ucx_listener_t *listener)
{
    int64_t end = kvl_time_add(kvl_now_ns(), QUIET_TIMEOUT);
    bool first  = true;

    while (door_clear(&listener->addr, first) && kvl_now_ns() < end) {
        first = false;
        ucp_worker_progress(listener->worker->ucp); /* requests that came meanwhile are refused */
        poll(NULL, 0, 1);
    }
}
