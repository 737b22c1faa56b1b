/* SPDX-License-Identifier: BSD-3-Clause */
#include "system/box.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Whoever speaks to a node's port without being a client: noise, the beginning of a real handshake, a
 * thousand connections that say nothing and stay. The node serves its clients meanwhile, and afterwards
 * it is as it was. */

#define SILENT    1000
#define NOISE     300
#define NOISE_MAX 2000
#define LONG      16384
#define HELLO_MAX 4096
#define QUIET_MS  15000

typedef struct {
    box_node_t node;
    box_client_t client;
    box_usage_t before;
    uint64_t random;
} scene_t;

static scene_t scene;

TEARDOWN
{
    box_kill_all();
}

static void scene_open(void)
{
    const box_setting_t settings[] = {{"KVLANE_RAILS", "tcp"}, {NULL, NULL}};

    scene = (scene_t){.random = 9};
    box_node_set(&scene.node, "tcp", "64M", NULL);
    box_node_start(&scene.node);
    box_client_open(&scene.client, scene.node.address, 4u << 20, settings);
    scene.before = box_usage(scene.node.child.pid);
}

/* a value goes there and comes back; and a client that is new gets in */
static void serves(bool new_one)
{
    const char *argv[]  = {shim_built("system_client"), "once", scene.node.address, NULL};
    box_child_t another = {.pid = 0};

    REQUIRE(box_runs(&scene.node.child));
    pattern_fill(scene.client.pool, 2u << 20, 1, 1);
    CHECK_EQ(box_put(&scene.client, "mine", 2u << 20), KVL_OK);
    memset(scene.client.pool, 0, 2u << 20);
    CHECK_EQ(box_get(&scene.client, "mine", 2u << 20), KVL_OK);
    CHECK_EQ(pattern_differs(scene.client.pool, 2u << 20, 1, 1), 2u << 20);
    if (new_one) {
        box_spawn(&another, argv, scene.node.settings);
        CHECK_MSG(box_wait(&another, 30000) == 0, "a new client does not get in");
    }
}

/* waits until the node has no more files open than before */
static void scene_close(const char *what)
{
    int64_t until = box_now_ms() + QUIET_MS;
    box_usage_t now;

    box_until_quiet(&scene.client, 1, QUIET_MS);
    do {
        now = box_usage(scene.node.child.pid);
        box_pause_us(10000);
    } while (now.fds > scene.before.fds && box_now_ms() < until);
    CHECK_MSG(now.fds <= scene.before.fds, "the node's files: %u, then %u", scene.before.fds,
              now.fds);
    serves(true);
    printf("%s: the node's files %u before, %u after\n", what, scene.before.fds, now.fds);
    box_client_close(&scene.client);
    box_node_end(&scene.node);
}

static struct sockaddr_in loopback(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in.sin_port        = htons(address ? (uint16_t)atoi(strrchr(address, ':') + 1) : 0);
    return in;
}

static int dial(void)
{
    struct sockaddr_in in = loopback(scene.node.address);
    int fd                = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    if (connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void end(int fd, bool rudely)
{
    struct linger now = {.l_onoff = 1};

    if (rudely) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* RST */
    }
    close(fd);
}

static void make_noise(size_t length, bool rudely)
{
    static uint8_t noise[LONG];
    int fd = dial();
    size_t i;

    REQUIRE(fd >= 0);
    for (i = 0; i < length; i++) {
        noise[i] = (uint8_t)box_random(&scene.random);
    }
    (void)!send(fd, noise, length, MSG_NOSIGNAL);
    end(fd, rudely);
}

TEST(hostile_port, gets_noise)
{
    unsigned i;

    scene_open();
    for (i = 0; i < NOISE; i++) {
        make_noise(box_random(&scene.random) % (i % 3 ? 64 : NOISE_MAX) + 1, i % 2);
        if (i % 50 == 0) {
            serves(false);
        }
    }
    scene_close("noise");
}

TEST(hostile_port, gets_long_noise)
{
    unsigned i;

    scene_open();
    for (i = 0; i < 8; i++) {
        make_noise(LONG, false);
        serves(i % 4 == 0);
    }
    scene_close("long noise");
}

/* UCX's header with this length in it, then that many bytes of a kind, zero or noise */
static void say_header(uint64_t says, size_t follow, bool zero)
{
    uint8_t bytes[16 + 256] = {0};
    int fd                  = dial();
    size_t i;

    REQUIRE(fd >= 0);
    memcpy(bytes, &says, sizeof(says));
    for (i = 0; i < follow && !zero; i++) {
        bytes[16 + i] = (uint8_t)box_random(&scene.random);
    }
    (void)!send(fd, bytes, 16 + follow, MSG_NOSIGNAL);
    end(fd, false);
}

/* Each of these ends a process that lets UCX have them, or takes a file from it, on some version. */
TEST(hostile_port, gets_headers_of_ucx_with_noise_behind)
{
    static const struct {
        uint64_t says;
        size_t follow;
    } cases[] = {{0, 48},  {0, 1},         {16, 16},           {55, 55}, {200, 200},
                 {200, 20}, {1u << 30, 64}, {UINT64_MAX - 15, 48}, {0, 0},   {55, 54}};
    size_t i;

    scene_open();
    for (i = 0; i < 6 * sizeof(cases) / sizeof(cases[0]); i++) {
        say_header(cases[i / 6].says, cases[i / 6].follow, i % 3 == 0);
        serves(i % 6 == 0);
    }
    scene_close("headers");
}

/* What a client of kvlane says first: the bytes that one sends to a port of ours. */
static size_t record_hello(uint8_t bytes[HELLO_MAX])
{
    struct sockaddr_in in = loopback(NULL);
    socklen_t size        = sizeof(in);
    int listener          = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    box_child_t client    = {.pid = 0};
    char address[32];
    const char *argv[]  = {shim_built("system_client"), "once", address, NULL};
    struct pollfd entry = {.fd = listener, .events = POLLIN};
    size_t length       = 0;
    ssize_t n           = 1;

    REQUIRE(bind(listener, (struct sockaddr *)&in, sizeof(in)) == 0 && listen(listener, 16) == 0);
    REQUIRE(getsockname(listener, (struct sockaddr *)&in, &size) == 0);
    snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(in.sin_port));
    box_spawn(&client, argv, scene.node.settings);
    REQUIRE(poll(&entry, 1, 30000) == 1);
    fd    = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    entry = (struct pollfd){.fd = fd, .events = POLLIN};
    while (n > 0 && length < HELLO_MAX && poll(&entry, 1, length ? 500 : 10000) == 1) {
        n = read(fd, bytes + length, HELLO_MAX - length);
        length += n > 0 ? (size_t)n : 0;
    }
    box_kill(&client);
    close(fd);
    close(listener);
    return length;
}

TEST(hostile_port, gets_half_a_handshake)
{
    uint8_t hello[HELLO_MAX];
    size_t length, cut, step, round;

    scene_open();
    length = record_hello(hello);
    CHECK_MSG(length > 16, "a client says %zu bytes", length);
    step = length / 40 + 1;
    for (round = 0; round < 3; round++) { /* closed; reset; one byte changed */
        for (cut = 1; cut <= length; cut += step) {
            int fd     = dial();
            size_t bad = box_random(&scene.random) % cut;

            REQUIRE(fd >= 0);
            hello[bad] ^= round == 2 ? 0x41 : 0;
            (void)!send(fd, hello, cut, MSG_NOSIGNAL);
            hello[bad] ^= round == 2 ? 0x41 : 0;
            end(fd, round == 1);
        }
        serves(true);
    }
    scene_close("half handshakes");
}

TEST(hostile_port, gets_a_thousand_connections_that_say_nothing)
{
    static int fds[SILENT];
    unsigned i, open = 0;

    scene_open();
    for (i = 0; i < SILENT; i++) {
        fds[i] = dial();
        open += fds[i] >= 0;
        if (i % 250 == 0) {
            serves(false);
        }
    }
    CHECK(open > SILENT / 2);
    serves(true);
    printf("%u connections that say nothing: the node has %u files open\n", open,
           box_usage(scene.node.child.pid).fds);
    for (i = 0; i < SILENT; i++) {
        if (fds[i] >= 0) {
            end(fds[i], i % 2);
        }
    }
    scene_close("silence");
}
