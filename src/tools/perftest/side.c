/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/side.h"

#include "tools/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS  3000
#define GREETING_MS 1000

/* ---- started here ---- */

static int start_server(perf_side_t *side, const perf_options_t *options, unsigned *control_p)
{
    char port[16], bytes[32], line[512];
    const char *argv[] = {options->argv[0], "--child", "-p", port, "-m", bytes, NULL};
    int got;

    snprintf(port, sizeof(port), "%u", options->port_given ? options->port : 0);
    snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)options->node_bytes);
    if (perf_child_start(&side->child, argv, -1)) {
        return -1;
    }
    got = perf_channel_receive(&side->child.output, PERF_START_MS, line, sizeof(line));
    if (got == 1 && sscanf(line, "ready %299s control %u", side->address, control_p) == 2) {
        return 0;
    }
    if (perf_stopped()) {
        return perf_fail("stopped by a signal");
    }
    if (got < 0 && perf_child_wait(&side->child, PERF_ANSWER_MS) == KVL_EXIT_USAGE) {
        perf_misused(); /* it has our settings */
    }
    return got == 0 ? perf_fail("the other side did not start within %d s", PERF_START_MS / 1000)
                    : perf_fail("the other side could not start");
}

static int start_responder(perf_side_t *side, const perf_options_t *options)
{
    char fd[16];
    const char *argv[] = {options->argv[0], "--child", "--responder", fd, NULL};
    int ends[2];
    int status;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return perf_fail("socketpair: %s", strerror(errno));
    }
    perf_channel_init(&side->control, ends[0]);
    snprintf(fd, sizeof(fd), "%d", ends[1]);
    status = perf_child_start(&side->child, argv, ends[1]);
    close(ends[1]);
    return status;
}

/* ---- found ---- */

/* 1: a perftest server of this node answers; 0: no; errno tells */
static int greet(perf_side_t *side, const char *host, unsigned control, unsigned node_port)
{
    char line[256];
    unsigned port = 0;
    int fd        = perf_connect(host, control, CONNECT_MS);

    if (fd < 0) {
        return 0;
    }
    perf_channel_init(&side->control, fd);
    if (perf_channel_receive(&side->control, GREETING_MS, line, sizeof(line)) == 1 &&
        sscanf(line, PERF_GREETING " %u", &port) == 1 && port == node_port) {
        return 1;
    }
    perf_channel_close(&side->control);
    errno = EPROTO;
    return 0;
}

static void format_address(const char *host, unsigned port, char *text, size_t size)
{
    snprintf(text, size, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
}

static int find_node(perf_side_t *side, const perf_options_t *options)
{
    format_address(options->host, options->port, side->address, sizeof(side->address));
    if (!greet(side, options->host, options->port + 1, options->port) && !options->mover) {
        perf_note("no perftest server at %s (port %u: %s); a node alone will do, but its CPU time "
                  "is unknown",
                  side->address, options->port + 1, strerror(errno));
    }
    return 0;
}

static int find_responder(perf_side_t *side, const perf_options_t *options)
{
    char rest[64];

    format_address(options->host, options->port, side->address, sizeof(side->address));
    if (!greet(side, options->host, options->port + 1, options->port)) {
        return perf_fail("no perftest server at %s (port %u: %s); -t %s needs one, a node alone "
                         "can't do it: start kvlane_perftest there without HOST",
                         side->address, options->port + 1, strerror(errno), options->test->name);
    }
    return perf_side_ask(side, "raw", "ok", rest, sizeof(rest));
}

/* ---- both ---- */

static int open_node(perf_side_t *side, const perf_options_t *options)
{
    unsigned control, port;
    const char *colon;

    if (!options->local) {
        return find_node(side, options);
    }
    if (start_server(side, options, &control)) {
        return -1;
    }
    colon = strrchr(side->address, ':');
    port  = colon != NULL ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
    if (!greet(side, "127.0.0.1", control, port)) {
        return perf_fail("the other side started, but does not answer (port %u: %s)", control,
                         strerror(errno));
    }
    return 0;
}

int perf_side_open(perf_side_t *side, const perf_options_t *options, perf_peer_t peer)
{
    int status;

    side->child.pid  = 0;
    side->address[0] = '\0';
    perf_channel_init(&side->control, -1);
    perf_channel_init(&side->child.output, -1);
    if (peer == PERF_PEER_RAW) {
        status = options->local ? start_responder(side, options) : find_responder(side, options);
    } else {
        status = open_node(side, options);
    }
    if (status) {
        perf_side_close(side);
    }
    return status;
}

int perf_side_close(perf_side_t *side)
{
    if (side->control.fd >= 0) {
        perf_channel_send(&side->control, "bye");
    }
    perf_channel_close(&side->control);
    return perf_child_stop(&side->child);
}

int perf_side_ask(perf_side_t *side, const char *question, const char *word, char *rest,
                  size_t size)
{
    char line[PERF_LINE_MAX];
    size_t length = strlen(word);
    int got;

    if (perf_channel_send(&side->control, "%s", question)) {
        return perf_fail("the other side has gone (asked: %.32s)", question);
    }
    got = perf_channel_receive(&side->control, PERF_ANSWER_MS, line, sizeof(line));
    if (got < 0) {
        return perf_fail("the other side has gone (asked: %.32s)", question);
    }
    if (got == 0) {
        return perf_fail(perf_stopped() ? "stopped by a signal"
                                        : "the other side does not answer (asked: %.32s)",
                         question);
    }
    if (strncmp(line, word, length) != 0) {
        return perf_fail("the other side: %s (asked: %.32s)", line, question);
    }
    snprintf(rest, size, "%s", line + length);
    return 0;
}

double perf_side_cpu(perf_side_t *side)
{
    char rest[64];

    if (side->control.fd < 0 || perf_side_ask(side, "cpu", "cpu", rest, sizeof(rest))) {
        return -1;
    }
    return strtod(rest, NULL);
}
