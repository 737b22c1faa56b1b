/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of text between the processes of a run, over a socket or pipe, with deadlines. */
#ifndef KVL_PERFTEST_CHANNEL_H
#define KVL_PERFTEST_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

#define PERF_LINE_MAX 16384

typedef struct {
    int fd;        /* -1: not open */
    size_t length; /* bytes in the buffer */
    char buffer[PERF_LINE_MAX];
} perf_channel_t;

void perf_channel_init(perf_channel_t *channel, int fd);
void perf_channel_close(perf_channel_t *channel);

/* Sends one line. 0, or -1 if the other side is gone (not said). */
int perf_channel_send(perf_channel_t *channel, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Receives one line, without its end, waiting at most @a timeout_ms.
 * 1: a line; 0: none yet; -1: the other side is gone, or sends what is no line. */
int perf_channel_receive(perf_channel_t *channel, int timeout_ms, char *line, size_t size);

/* Connects; gives up after @a timeout_ms. The fd, or -1 with errno. */
int perf_connect(const char *host, unsigned port, int timeout_ms);
/* Listens; port 0 picks one. The fd, or -1 with errno. */
int perf_listen(const char *host, unsigned *port);
/* Takes one connection. */
int perf_accept(int fd);
/* Local address of a connected socket, as kvl_engine_params_t wants one; "" if it has none. */
void perf_socket_address(int fd, char *address, size_t size);

#endif
