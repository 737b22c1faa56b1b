/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/server.h"

#include "tools/perftest/channel.h"
#include "tools/perftest/child.h"
#include "tools/perftest/side.h"

#include <kvlane/node.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX 64
#define START_S     30
#define END_S       20
#define DRAIN_MS    5000
#define TURN_MS     200

/* main thread only */
typedef struct {
    const perf_options_t *options;
    kvl_node_t *node;
    pthread_t thread; /* in kvl_node_run() */
    char address[256];
    unsigned node_port, control_port;
    int listener;
    perf_channel_t clients[CLIENTS_MAX];
    pid_t responders[CLIENTS_MAX];
    bool served; /* had a client */
} server_t;

static void *run_node(void *node)
{
    if (kvl_node_run(node) != KVL_OK) {
        perf_fail("node: %s", kvl_error_text());
    }
    return NULL;
}

static int start_node(server_t *server)
{
    const perf_options_t *options = server->options;
    kvl_node_params_t params      = {.memory_bytes = options->node_bytes};
    char listen_at[64];
    kvl_status_t status;
    const char *colon;
    int error;

    snprintf(listen_at, sizeof(listen_at), "%s:%u", options->child ? "127.0.0.1" : "0.0.0.0",
             options->port);
    params.listen = listen_at;
    status        = kvl_node_create(&params, &server->node);
    if (status != KVL_OK) {
        return perf_refused(status);
    }
    error = kvl_node_address(server->node, server->address, sizeof(server->address)) != KVL_OK;
    colon = strrchr(server->address, ':');
    if (error || colon == NULL) {
        kvl_node_destroy(server->node);
        return perf_fail("node: no address");
    }
    server->node_port = (unsigned)strtoul(colon + 1, NULL, 10);
    error             = pthread_create(&server->thread, NULL, run_node, server->node);
    if (error) {
        kvl_node_destroy(server->node);
        return perf_fail("thread: %s", strerror(error));
    }
    return 0;
}

static void stop_node(server_t *server)
{
    kvl_node_drain(server->node, DRAIN_MS);
    pthread_join(server->thread, NULL);
    kvl_node_destroy(server->node);
}

static int start_control(server_t *server)
{
    bool picked = server->options->port == 0;

    server->control_port = picked ? 0 : server->node_port + 1;
    server->listener =
        perf_listen(server->options->child ? "127.0.0.1" : "0.0.0.0", &server->control_port);
    if (server->listener < 0) {
        return perf_fail("control port %u: %s (it is the node's port + 1)", server->control_port,
                         strerror(errno));
    }
    return 0;
}

/* ---- clients ---- */

static void take_client(server_t *server)
{
    int fd = perf_accept(server->listener);

    if (fd < 0) {
        return;
    }
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        if (server->clients[i].fd < 0 && server->responders[i] == 0) {
            perf_channel_init(&server->clients[i], fd);
            perf_channel_send(&server->clients[i], PERF_GREETING " %u", server->node_port);
            server->served = true;
            return;
        }
    }
    close(fd);
}

/* the client's connection goes to a process of its own */
static void start_responder(server_t *server, unsigned i)
{
    perf_channel_t *client = &server->clients[i];
    char fd[16];
    const char *argv[] = {server->options->argv[0], "--child", "--responder", fd, NULL};

    snprintf(fd, sizeof(fd), "%d", client->fd);
    if (perf_channel_send(client, "ok") ||
        perf_child_spawn(&server->responders[i], argv, client->fd)) {
        server->responders[i] = 0;
    }
    perf_channel_close(client);
}

static void serve_client(server_t *server, unsigned i)
{
    perf_channel_t *client = &server->clients[i];
    char line[256];
    int got = perf_channel_receive(client, 0, line, sizeof(line));

    if (got == 0) {
        return;
    }
    if (got < 0 || strcmp(line, "bye") == 0) {
        perf_channel_close(client);
    } else if (strcmp(line, "cpu") == 0) {
        perf_channel_send(client, "cpu %.9f", perf_cpu_self());
    } else if (strcmp(line, "raw") == 0) {
        start_responder(server, i);
    } else {
        perf_channel_send(client, "unknown question");
    }
}

static bool has_clients(server_t *server)
{
    bool any = false;

    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        if (server->responders[i] != 0 &&
            waitpid(server->responders[i], NULL, WNOHANG) == server->responders[i]) {
            server->responders[i] = 0;
        }
        any |= server->clients[i].fd >= 0 || server->responders[i] != 0;
    }
    return any;
}

static void serve_turn(server_t *server)
{
    struct pollfd pollers[CLIENTS_MAX + 1] = {{.fd = server->listener, .events = POLLIN}};

    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        pollers[i + 1] = (struct pollfd){.fd = server->clients[i].fd, .events = POLLIN};
    }
    if (poll(pollers, CLIENTS_MAX + 1, TURN_MS) <= 0) {
        return;
    }
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        if (pollers[i + 1].revents != 0) {
            serve_client(server, i);
        }
    }
    if (pollers[0].revents != 0) {
        take_client(server);
    }
}

static void end_clients(server_t *server)
{
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        perf_child_t child = {.pid = server->responders[i]};

        perf_channel_close(&server->clients[i]);
        perf_channel_init(&child.output, -1);
        perf_child_stop(&child);
    }
}

int perf_serve(const perf_options_t *options)
{
    server_t server = {.options = options};

    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        perf_channel_init(&server.clients[i], -1);
    }
    perf_watchdog("the start of the node", START_S);
    if (start_node(&server)) {
        return -1;
    }
    if (start_control(&server)) {
        stop_node(&server);
        return -1;
    }
    perf_watchdog_off();
    printf("ready %s control %u\n", server.address, server.control_port);
    fflush(stdout);
    do {
        serve_turn(&server);
    } while (!perf_stopped() &&
             (options->keep || options->child || !server.served || has_clients(&server)));
    perf_watchdog("the end of the node", END_S);
    end_clients(&server);
    close(server.listener);
    stop_node(&server);
    perf_watchdog_off();
    return 0;
}
