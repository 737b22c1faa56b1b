/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx/private.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"

#include <dirent.h>
#include <endian.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Who stands at a listener's door. UCX trusts whoever connects to its tcp port: 64 zero bytes abort the
 * process from UCX's own thread (1.13.1, also random bytes after a header that fits: all versions), other
 * noise costs a file descriptor for good (all versions), as does a connection that says nothing. UCX leaves no
 * room for a look at the bytes, but the kernel does: a filter on the listening socket, which accepted ones
 * inherit, drops each packet that is not what a client of kvlane sends there. Who got nothing through is sent
 * away after a while: a worker takes UCX_ASYNC_MAX_EVENTS connections, UCX breaks at more. (TCP_DEFER_ACCEPT
 * would keep them out; but when a connection comes together with its first packet, UCX 1.13 hands events to
 * the wrong one and aborts.) What follows the checked bytes is UCX's to read: a peer that speaks UCX's own
 * protocol with intent is trusted as far as UCX trusts it.
 *
 * Before a listener is destroyed nobody may be at its door: UCX leaves a connection that was accepted and
 * did not bring its request yet behind, with a pointer to the listener's freed memory: one more packet of
 * that client, and UCX's own thread crashes (1.13.1, and by its source also later ones). So its socket takes
 * no new connection (a filter drops the SYN: the client's kernel tries again in a second, and finds the next
 * listener or none), UCX's thread accepts those that are queued, and those get an end of file, upon which
 * UCX drops them. */

#define QUIET_TIMEOUT KVL_SECOND
#define IDLE_MS       5000 /* a visitor may be silent that long */
#define NEAR_FILES    64
#define SWEEP_FILES   256 /* looked at in one go */

/* ---- what may pass ---- */

/* UCX's header: u64 length of what follows, u8 status, 7 unused. A request follows it with u64 endpoint, u8
 * header (version 1: error mode; version 2: 1 << 5 | flags), in version 1 also u8 address mode and u8 device,
 * then the address, whose first four bits are its version. The only other message is a bare header. Each
 * comes in one packet: it is some hundred bytes at most, and the smallest MTU is over a thousand. */
enum { HEADER = 16, REQUEST = HEADER + 12, LENGTH_HIGH = 4, LENGTH_MIDDLE = 2 };
enum { SA_HEADER = HEADER + 8, SA_MODE, SA_DEVICE, SA_ADDRESS_V1, SA_ADDRESS_V2 = SA_MODE };
enum { SA_V1_PEER = 0x01, SA_V2_PEER = 0x21, SA_MODE_CM = 2, ADDRESS_VERSION_MAX = 1 };
enum { SLOT_PAYLOAD, SLOT_START, SLOT_LENGTH };
enum { TCP_OFFSET = 12 };

#define LOAD(size, at)           BPF_STMT(BPF_LD | (size) | BPF_IND, (at)) /* from the start of the payload */
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test), (value), (yes), (no)) /* steps ahead */
#define PASS                     BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)
#define DROP                     BPF_STMT(BPF_RET | BPF_K, 0)
#define NEED(test, value)        IF(test, value, 1, 0), DROP
#define FILTER_LENGTH(filter)    (sizeof(filter) / sizeof((filter)[0]))
#define PASSES(test, value)      IF(test, value, 0, 1), PASS

/* A: length of the payload, X: its start */
#define PAYLOAD                                                                                    \
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_OFFSET), /* in words, upper half of the byte */         \
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x3c),         \
        BPF_STMT(BPF_ST, SLOT_START), BPF_STMT(BPF_MISC | BPF_TAX, 0),                             \
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0)

/* the first packet: a request */
static const struct sock_filter request_filter[] = {
    PAYLOAD,
    BPF_STMT(BPF_ST, SLOT_PAYLOAD),
    PASSES(BPF_JEQ, 0), /* SYN, ACK, FIN */
    NEED(BPF_JGE, HEADER),
    LOAD(BPF_W, LENGTH_HIGH),
    NEED(BPF_JEQ, 0),
    LOAD(BPF_H, LENGTH_MIDDLE),
    NEED(BPF_JEQ, 0),
    LOAD(BPF_B, 1),
    BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 8),
    BPF_STMT(BPF_ST, SLOT_LENGTH),
    LOAD(BPF_B, 0),
    BPF_STMT(BPF_LDX | BPF_MEM, SLOT_LENGTH),
    BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0),
    BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, HEADER),
    BPF_STMT(BPF_MISC | BPF_TAX, 0),
    BPF_STMT(BPF_LD | BPF_MEM, SLOT_PAYLOAD),
    NEED(BPF_JEQ | BPF_X, 0), /* it is as long as it says */
    NEED(BPF_JGE, REQUEST),
    BPF_STMT(BPF_LDX | BPF_MEM, SLOT_START),
    LOAD(BPF_B, SA_HEADER),
    IF(BPF_JEQ, SA_V1_PEER, 0, 5),
    LOAD(BPF_B, SA_MODE),
    NEED(BPF_JEQ, SA_MODE_CM),
    LOAD(BPF_B, SA_ADDRESS_V1),
    BPF_STMT(BPF_JMP | BPF_JA, 3),
    NEED(BPF_JEQ, SA_V2_PEER),
    LOAD(BPF_B, SA_ADDRESS_V2),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x0f),
    IF(BPF_JGT, ADDRESS_VERSION_MAX, 0, 1),
    DROP,
    PASS,
};

/* after it was accepted: a bare header */
static const struct sock_filter accepted_filter[] = {
    PAYLOAD,          PASSES(BPF_JEQ, 0),       NEED(BPF_JEQ, HEADER), LOAD(BPF_W, 0),
    NEED(BPF_JEQ, 0), LOAD(BPF_W, LENGTH_HIGH), NEED(BPF_JEQ, 0),      PASS,
};

/* What a socket of this process is to the listener. */
typedef enum { SOCKET_OTHER, SOCKET_LISTENS, SOCKET_CONNECTED } socket_kind_t;

/* Is local the address addr, or one that a listener at addr takes connections at? */
static bool addr_covers(const kvl_addr_t *addr, const struct sockaddr_storage *local)
{
    const struct sockaddr_in *in4 = (const void *)&addr->storage, *local4 = (const void *)local;
    const struct sockaddr_in6 *in6 = (const void *)&addr->storage, *local6 = (const void *)local;

    if (local->ss_family != addr->storage.ss_family) {
        return false;
    }
    if (local->ss_family == AF_INET) {
        return local4->sin_port == in4->sin_port &&
               (in4->sin_addr.s_addr == htonl(INADDR_ANY) ||
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
    int listens = 0, type = 0;
    socklen_t size = sizeof(listens);

    if (getsockname(fd, (struct sockaddr *)&local, &length) || !addr_covers(addr, &local) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size)) {
        return SOCKET_OTHER;
    }
    return listens ? SOCKET_LISTENS : SOCKET_CONNECTED;
}

static bool socket_filter(int fd, const struct sock_filter *filter, size_t length)
{
    struct sock_fprog program = {(unsigned short)length, (struct sock_filter *)(uintptr_t)filter};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

static void socket_deafen(int fd)
{
    static const struct sock_filter drop[] = {DROP};

    if (!socket_filter(fd, drop, 1)) {
        kvl_debug("listener: no filter on its socket");
    }
}

/* nothing of it came through the filter, for a while */
static bool socket_is_idle(int fd)
{
    struct tcp_info info = {0};
    socklen_t size       = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           size >=
               offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received) &&
           info.tcpi_bytes_received == 0 && info.tcpi_last_data_recv > IDLE_MS;
}

/* ---- while it listens ---- */

static bool door_is_known(void)
{
    return __BYTE_ORDER == __LITTLE_ENDIAN && kvl_ucx_api() <= UCP_VERSION(1, 23);
}

static bool guard_one(int fd, void *arg)
{
    kvl_ucx_listener_t *listener = arg;

    if (socket_kind(&listener->addr, fd) == SOCKET_LISTENS) {
        listener->guarded |= socket_filter(fd, request_filter, FILTER_LENGTH(request_filter));
    }
    return true;
}

void kvl_ucx_listener_guard(kvl_ucx_listener_t *listener)
{
    listener->files = opendir("/proc/self/fd");
    if (door_is_known()) {
        kvl_files_each(guard_one, listener);
    }
    if (!listener->guarded) {
        kvl_warn(
            "listener: noise at its port is not filtered with this UCX or kernel, and may end this "
            "process; let only those connect who should");
    }
}

typedef struct {
    const kvl_addr_t *addr;
    kvl_addr_t peer;
    int fd; /* -1: not found yet */
} socket_search_t;

static bool search_one(int fd, void *arg)
{
    socket_search_t *search       = arg;
    struct sockaddr_storage other = {.ss_family = AF_UNSPEC};
    socklen_t length              = sizeof(other);

    if (getpeername(fd, (struct sockaddr *)&other, &length) == 0 &&
        addr_covers(&search->peer, &other) && socket_kind(search->addr, fd) == SOCKET_CONNECTED) {
        search->fd = fd;
    }
    return search->fd < 0;
}

/* The socket of a request: the kernel gives out the lowest free number, so it is near the last one. */
static int door_find(const kvl_ucx_listener_t *listener, const struct sockaddr_storage *peer)
{
    socket_search_t search = {.addr = &listener->addr, .peer = {.storage = *peer}, .fd = -1};
    int fd;

    for (fd = listener->last_fd; fd < listener->last_fd + NEAR_FILES; fd++) {
        if (!search_one(fd, &search)) {
            return fd;
        }
    }
    kvl_files_each(search_one, &search);
    return search.fd;
}

void kvl_ucx_listener_admit(kvl_ucx_listener_t *listener, const struct sockaddr_storage *peer)
{
    int fd = listener->guarded ? door_find(listener, peer) : -1;

    if (fd >= 0) {
        listener->last_fd = fd;
        (void)socket_filter(fd, accepted_filter, FILTER_LENGTH(accepted_filter));
    }
}

void kvl_ucx_listener_sweep(kvl_ucx_listener_t *listener)
{
    unsigned i;

    for (i = 0; listener->files && i < SWEEP_FILES; i++) {
        struct dirent *entry = readdir(listener->files);
        int fd               = entry ? atoi(entry->d_name) : -1;

        if (!entry) {
            rewinddir(listener->files);
            return;
        }
        if (socket_kind(&listener->addr, fd) == SOCKET_CONNECTED && socket_is_idle(fd)) {
            kvl_debug("listener: sent a visitor away that said nothing of use");
            shutdown(fd, SHUT_RDWR);
        }
    }
}

/* ---- before it goes ---- */

typedef struct {
    const kvl_addr_t *addr;
    unsigned count; /* who is there, queued ones included */
} door_clear_t;

static bool deafen_one(int fd, void *arg)
{
    if (socket_kind(arg, fd) == SOCKET_LISTENS) {
        socket_deafen(fd);
    }
    return true;
}

/* tells it to go */
static bool clear_one(int fd, void *arg)
{
    door_clear_t *clear = arg;
    struct pollfd queue = {.fd = fd, .events = POLLIN};

    switch (socket_kind(clear->addr, fd)) {
    case SOCKET_LISTENS:
        clear->count += poll(&queue, 1, 0) == 1;
        break;
    case SOCKET_CONNECTED:
        shutdown(fd, SHUT_RDWR);
        clear->count++;
        break;
    default:
        break;
    }
    return true;
}

void kvl_ucx_listener_quiet(kvl_ucx_listener_t *listener)
{
    int64_t end        = kvl_time_add(kvl_now_ns(), QUIET_TIMEOUT);
    door_clear_t clear = {.addr = &listener->addr};

    if (listener->files) {
        closedir(listener->files);
    }
    kvl_files_each(deafen_one, &listener->addr);
    do {
        clear.count = 0;
        kvl_files_each(clear_one, &clear);
        ucp_worker_progress(listener->worker->ucp); /* requests that came meanwhile are refused */
        poll(NULL, 0, clear.count ? 1 : 0);
    } while (clear.count && kvl_now_ns() < end);
}
