/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"
#include "system/program.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Tools that are started with standard input, output and error closed: no connection may get one of their
 * numbers, or what is printed goes to a peer. */

#define WAIT_MS 20000

static char out[PROGRAM_TEXT], err[PROGRAM_TEXT];
static program_t program;
static int listener, visitor;

SETUP
{
    program.pid = 0;
    listener = visitor = -1;
    setenv("KVLANE_RAILS", "tcp", 1);
}

TEARDOWN
{
    if (program.pid > 0) {
        kill(program.pid, SIGKILL);
        program_end(&program, out, err);
    }
    if (visitor >= 0) {
        close(visitor);
    }
    if (listener >= 0) {
        close(listener);
    }
    unsetenv("KVLANE_RAILS");
}

static struct sockaddr_in local(unsigned port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port   = htons((uint16_t)port),
                                .sin_addr   = {htonl(INADDR_LOOPBACK)}};
}

/* Listens here; the port. Not one that the kernel hands out: whoever asks it for any port on this host would
 * get this one in the moment between us and the node. */
static unsigned listen_here(void)
{
    struct sockaddr_in address;
    unsigned tries;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (tries = 0; tries < 1000; tries++) {
        address = local(10000 + ((unsigned)getpid() * 13 + tries) % 20000);
        if (bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0) {
            break;
        }
    }
    REQUIRE(listen(listener, 16) == 0);
    return ntohs(address.sin_port);
}

/* ... and how it ends after @a signal */
static void check_standard_files(const char *name, int signal, int code)
{
    for (int fd = 0; fd < 3; fd++) {
        char path[64], target[128] = "";

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)program.pid, fd);
        REQUIRE(readlink(path, target, sizeof(target) - 1) >= 0);
        CHECK_MSG(strcmp(target, "/dev/null") == 0, "%s: file %d is %s", name, fd, target);
    }
    kill(program.pid, signal);
    CHECK_EQ(program_end(&program, out, err), code);
    program.pid = 0;
}

/* A client's connection arrives here, and is open there meanwhile. */
static void check_client(const char *name, const char *const args[])
{
    struct pollfd poller = {.fd = listener, .events = POLLIN};

    program_start_closed(&program, name, args);
    REQUIRE(poll(&poller, 1, WAIT_MS) == 1);
    visitor = accept(listener, NULL, NULL);
    REQUIRE(visitor >= 0);
    check_standard_files(name, SIGKILL, 256 + SIGKILL);
    close(visitor);
    visitor = -1;
}

TEST(tools_start, keeps_connections_off_the_standard_files_of_a_client)
{
    unsigned port = listen_here();
    char here[64], host[64];

    snprintf(here, sizeof(here), "127.0.0.1:%u", port);
    snprintf(host, sizeof(host), "127.0.0.1:%u", port - 1); /* what it connects to first is one above */
    check_client("kvlane", ARGS("-s", here, "stat"));
    check_client("kvlane_info", ARGS("-s", here));
    check_client("kvlane_perftest", ARGS("-t", "put", host));
}

TEST(tools_start, keeps_connections_off_the_standard_files_of_a_node)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    struct sockaddr_in address  = local(listen_here());
    char here[64];
    int error = -1;

    close(listener); /* the port is free now */
    listener = -1;
    snprintf(here, sizeof(here), "127.0.0.1:%u", ntohs(address.sin_port));
    program_start_closed(&program, "kvlaned", ARGS("-l", here, "-m", "16M"));
    for (unsigned i = 0; i < WAIT_MS / 10 && error; i++) {
        nanosleep(&pause, NULL);
        visitor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        error   = connect(visitor, (struct sockaddr *)&address, sizeof(address));
        if (error) {
            close(visitor);
            visitor = -1;
        }
    }
    REQUIRE(error == 0);
    check_standard_files("kvlaned", SIGTERM, 0); /* nobody misses the line that it is ready */
}

TEST(tools_start, tells_that_standard_output_is_closed)
{
    program_start_closed(&program, "kvlane_info", ARGS("-v"));
    CHECK_EQ(program_end(&program, out, err), 1);
    program.pid = 0;
}
