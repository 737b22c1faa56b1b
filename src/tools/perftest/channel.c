/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/channel.h"

#include "tools/perftest/perftest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_S 0.2 /* between looks at the stop flag */

void perf_channel_init(perf_channel_t *channel, int fd)
{
    channel->fd     = fd;
    channel->length = 0;
}

void perf_channel_close(perf_channel_t *channel)
{
    if (channel->fd >= 0) {
        close(channel->fd);
    }
    perf_channel_init(channel, -1);
}

int perf_channel_send(perf_channel_t *channel, const char *format, ...)
{
    char line[PERF_LINE_MAX];
    va_list arguments;
    size_t sent = 0;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof(line) - 1) {
        return -1;
    }
    line[length++] = '\n';
    while (sent < (size_t)length) {
        ssize_t some = send(channel->fd, line + sent, (size_t)length - sent, MSG_NOSIGNAL);

        if (some < 0 && errno != EINTR) {
            return -1;
        }
        sent += some < 0 ? 0 : (size_t)some;
    }
    return 0;
}

/* 1: a whole line is in @a line */
static int take_line(perf_channel_t *channel, char *line, size_t size)
{
    char *end = memchr(channel->buffer, '\n', channel->length);
    size_t length;

    if (end == NULL) {
        return channel->length == sizeof(channel->buffer) ? -1 : 0;
    }
    length = (size_t)(end - channel->buffer);
    if (length >= size || memchr(channel->buffer, '\0', length) != NULL) {
        return -1;
    }
    memcpy(line, channel->buffer, length);
    line[length] = '\0';
    channel->length -= length + 1;
    memmove(channel->buffer, end + 1, channel->length);
    return 1;
}

/* 1: something came; 0: nothing; -1: gone */
static int take_bytes(perf_channel_t *channel, int timeout_ms)
{
    struct pollfd poller = {.fd = channel->fd, .events = POLLIN};
    ssize_t some;

    if (poll(&poller, 1, timeout_ms) <= 0) {
        return 0;
    }
    some = read(channel->fd, channel->buffer + channel->length,
                sizeof(channel->buffer) - channel->length);
    if (some < 0 && (errno == EINTR || errno == EAGAIN)) {
        return 0;
    }
    if (some <= 0) {
        return -1;
    }
    channel->length += (size_t)some;
    return 1;
}

int perf_channel_receive(perf_channel_t *channel, int timeout_ms, char *line, size_t size)
{
    double until = perf_now() + timeout_ms * 1e-3;
    int result;

    if (channel->fd < 0) {
        return -1;
    }
    while ((result = take_line(channel, line, size)) == 0) {
        double rest = until - perf_now();

        /* in short turns: a signal may come just before the wait */
        rest   = rest > LOOK_S ? LOOK_S : rest;
        result = take_bytes(channel, rest > 0 ? (int)(rest * 1e3) + 1 : 0);
        if (result < 0 || (result == 0 && rest <= 0) || (result == 0 && perf_stopped())) {
            return result;
        }
        if (timeout_ms == 0 && result == 0) {
            return 0;
        }
    }
    return result;
}

/* ---- sockets ---- */

static struct addrinfo *resolve(const char *host, unsigned port, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found;
    char service[16];

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return NULL;
    }
    return found;
}

static void set_nodelay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int finish_connect(int fd, int timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    int error            = 0;
    socklen_t length     = sizeof(error);

    if (poll(&poller, 1, timeout_ms) <= 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        errno = error;
        return -1;
    }
    return 0;
}

static int connect_one(const struct addrinfo *address, int timeout_ms)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return -1;
    }
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 &&
        (errno != EINPROGRESS || finish_connect(fd, timeout_ms))) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    set_nodelay(fd);
    return fd;
}

int perf_connect(const char *host, unsigned port, int timeout_ms)
{
    struct addrinfo *found = resolve(host, port, 0);
    int fd                 = -1;

    for (struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = connect_one(at, timeout_ms);
    }
    if (found != NULL) {
        int error = errno;

        freeaddrinfo(found);
        errno = error;
    }
    return fd;
}

int perf_listen(const char *host, unsigned *port)
{
    struct addrinfo *found = resolve(host, *port, AI_PASSIVE);
    struct sockaddr_storage bound;
    socklen_t length = sizeof(bound);
    int fd, on = 1;

    if (found == NULL) {
        return -1;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 16) != 0 ||
            getsockname(fd, (struct sockaddr *)&bound, &length) != 0) {
            int error = errno;

            close(fd);
            errno = error;
            fd    = -1;
        }
    }
    freeaddrinfo(found);
    if (fd >= 0) {
        *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                  : ((struct sockaddr_in *)&bound)->sin_port);
    }
    return fd;
}

int perf_accept(int fd)
{
    int accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

    if (accepted >= 0) {
        set_nodelay(accepted);
    }
    return accepted;
}

void perf_socket_address(int fd, char *address, size_t size)
{
    struct sockaddr_storage local;
    socklen_t length = sizeof(local);
    char host[128];

    address[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&local, &length) == 0 && local.ss_family != AF_UNIX &&
        getnameinfo((struct sockaddr *)&local, length, host, sizeof(host), NULL, 0,
                    NI_NUMERICHOST) == 0) {
        snprintf(address, size, local.ss_family == AF_INET6 ? "[%s]:1" : "%s:1", host);
    }
}
