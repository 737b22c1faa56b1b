/* SPDX-License-Identifier: BSD-3-Clause */
#include "conform/scene.h"

#include "lane/endpoint.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Clients that lie before they are let in: what arrives at the listener's port, HELLO and EP_HELLO. */

/* ---- before HELLO, and HELLO ---- */

typedef struct {
    const char *bytes;
    size_t length;
} bytes_t;

BOTH(node_hello, throws_out_what_is_no_hello)
{
    static const bytes_t lies[] = {
        {"", 0},
        {"GET / HTTP/1.1\r\n\r\n", 18},
        {"\x4c\x4b\x01", 3},                                                      /* cut */
        {"\x4c\x4b\x09\x01\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* version 9 */
        {"\x4c\x4b\x01\xff\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* type 255 */
        {"\x4c\x4b\x01\x0c\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24},         /* RESERVE */
        {"\x4c\x4b\x01\x01\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xff", 24}, /* body 4 GiB */
    };
    scene_t scene;
    size_t i;

    scene_open(&scene, rails);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        raw_connect(&scene.raw, KVL_LANE_CTRL);
        raw_bytes(&scene.raw, KVL_LANE_CTRL, KVL_AM_CTRL, lies[i].bytes, lies[i].length);
        has_counted(&scene);
        scene_again(&scene);
    }
    serves_others(&scene);
    scene_close(&scene);
}

static void lie_hello(scene_t *scene, const kvl_hello_t *hello, kvl_status_t status)
{
    raw_t *raw = &scene->raw;
    raw_message_t *message;

    raw_connect(raw, KVL_LANE_CTRL);
    kvl_put_hello(raw_begin(raw), hello);
    message = raw_answer(raw, KVL_MSG_REFUSE, raw_send(raw, KVL_MSG_HELLO));
    if (status) {
        CHECK_EQ(message->msg.status, status);
    }
    has_counted(scene);
    scene_again(scene);
}

BOTH(node_hello, refuses_versions_numbers_and_names_that_do_not_fit)
{
    kvl_hello_t hello;
    scene_t scene;

    scene_open(&scene, rails);
    hello             = raw_hello(&scene.raw);
    hello.version_min = hello.version_max = 77;
    lie_hello(&scene, &hello, KVL_ERR_VERSION);
    hello       = raw_hello(&scene.raw);
    hello.nonce = hello.nonce ^ UINT64_C(0x10000);
    lie_hello(&scene, &hello, KVL_ERR_INVALID);
    hello              = raw_hello(&scene.raw);
    hello.sg_endpoints = 65535;
    lie_hello(&scene, &hello, KVL_ERR_INVALID);
    hello       = raw_hello(&scene.raw);
    hello.depth = 0;
    lie_hello(&scene, &hello, KVL_OK);
    hello           = raw_hello(&scene.raw);
    hello.transport = 1;
    lie_hello(&scene, &hello, KVL_ERR_REFUSED);
    serves_others(&scene);
    scene_close(&scene);
}

BOTH(node_hello, throws_out_who_says_it_twice)
{
    kvl_hello_t hello;
    scene_t scene;

    scene_open(&scene, rails);
    raw_login(&scene.raw);
    hello = raw_hello(&scene.raw);
    kvl_put_hello(raw_begin(&scene.raw), &hello);
    raw_send(&scene.raw, KVL_MSG_HELLO);
    is_thrown_out(&scene);
    scene_close(&scene);
}

BOTH(node_ep_hello, refuses_sessions_and_places_that_are_not_the_clients)
{
    static const kvl_ep_hello_t lies[] = {
        {.session = 12345, .lane = KVL_LANE_DATA},         /* no such session */
        {.session = 0, .lane = KVL_LANE_DATA, .index = 1}, /* no such place; 0: the own session */
        {.session = 0, .lane = KVL_LANE_SG, .index = 0},   /* another lane than it came on */
    };
    scene_t scene;
    size_t i, length;

    scene_open(&scene, rails);
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        kvl_ep_hello_t hello = lies[i];

        raw_login(&scene.raw);
        hello.session = hello.session ? hello.session : scene.raw.terms.session;
        raw_connect(&scene.raw, KVL_LANE_DATA);
        kvl_put_ep_hello(raw_begin(&scene.raw), &hello);
        length = kvl_wbuf_finish(&scene.raw.w, KVL_MSG_EP_HELLO, 1, KVL_OK);
        raw_bytes(&scene.raw, KVL_LANE_DATA, KVL_AM_EP_HELLO, scene.raw.buffer, length);
        raw_answer(&scene.raw, KVL_MSG_REFUSE, 1);
        has_counted(&scene);
        scene_again(&scene);
    }
    serves_others(&scene);
    scene_close(&scene);
}

/* ---- the port itself ---- */

static int dial(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port   = htons((uint16_t)atoi(strchr(address, ':') + 1))};
    int fd                = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&in, sizeof(in)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

TEST(node_listener, survives_garbage_half_handshakes_and_a_thousand_connects)
{
    static const char garbage[4096] = "GET / HTTP/1.1\r\nHost: kvlane\r\n\r\n";
    int fds[100], i;
    scene_t scene;

    scene_open(&scene, "tcp");
    for (i = 0; i < 100; i++) { /* they stay */
        fds[i] = dial(scene.stage.address);
        if (fds[i] >= 0 && i % 2) {
            CHECK(send(fds[i], garbage, i % 3 ? sizeof(garbage) : 5, MSG_NOSIGNAL) > 0);
        }
    }
    serves_others(&scene);
    for (i = 0; i < 1000; i++) {
        int fd = dial(scene.stage.address);

        if (fd >= 0) {
            (void)!send(fd, garbage, (size_t)(i % 64), MSG_NOSIGNAL);
            close(fd);
        }
    }
    serves_others(&scene);
    for (i = 0; i < 100; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    serves_others(&scene);
    scene_close(&scene);
}
