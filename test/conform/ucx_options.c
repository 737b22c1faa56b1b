/* SPDX-License-Identifier: BSD-3-Clause */
/* Every KVLANE_UCX_ name takes effect on every UCX, or is refused by name. */
#include "conform/pair.h"

#include "shim/shim.h"

#include <kvlane/engine.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void refused(const char *options, kvl_status_t status, const char *first, const char *second)
{
    pair_t pair;

    CHECK_EQ(pair_open(&pair, "tcp", options), status);
    CHECK_MSG(strstr(kvl_error_text(), first) != NULL, "\"%s\" is not in \"%s\"", first,
              kvl_error_text());
    CHECK_MSG(strstr(kvl_error_text(), second) != NULL, "\"%s\" is not in \"%s\"", second,
              kvl_error_text());
}

TEST(ucx_options, refuses_a_name_that_does_not_exist)
{
    refused("KVLANE_UCX_BOGUS=1", KVL_ERR_CONFIG, "KVLANE_UCX_BOGUS", "no such option");
    refused("KVLANE_UCX_TCP_BOGUS=1", KVL_ERR_CONFIG, "KVLANE_UCX_TCP_BOGUS", "no such option");
    refused("KVLANE_UCX_BOGUS_TX_SEG_SIZE=8k", KVL_ERR_CONFIG, "KVLANE_UCX_BOGUS_TX_SEG_SIZE",
            "no such option");
}

/* 1.13.1 knows it inside; no environment variable of UCX has this name */
TEST(ucx_options, refuses_a_transport_option_without_its_transport)
{
    refused("KVLANE_UCX_TX_SEG_SIZE=64k", KVL_ERR_CONFIG, "KVLANE_UCX_TX_SEG_SIZE",
            "no such option");
}

TEST(ucx_options, refuses_a_bad_value)
{
    refused("KVLANE_UCX_TCP_TX_SEG_SIZE=much", KVL_ERR_CONFIG, "KVLANE_UCX_TCP_TX_SEG_SIZE=much",
            "value");
    refused("KVLANE_UCX_RNDV_THRESH=never", KVL_ERR_CONFIG, "KVLANE_UCX_RNDV_THRESH=never",
            "value");
}

TEST(ucx_options, refuses_what_would_hold_for_the_whole_process)
{
    refused("KVLANE_UCX_LOG_LEVEL=info", KVL_ERR_CONFIG, "KVLANE_UCX_LOG_LEVEL", "whole process");
}

TEST(ucx_options, names_what_is_there_when_a_device_is_not)
{
    pair_t pair;
    kvl_context_t *context;
    kvl_context_params_t params = {0};

    refused("KVLANE_UCX_NET_DEVICES=eth77", KVL_ERR_NO_DEVICE, "KVLANE_UCX_NET_DEVICES", "tcp/lo");
    CHECK_EQ(pair_open(&pair, "eth77", NULL), KVL_ERR_NO_DEVICE);
    CHECK(strstr(kvl_error_text(), "eth77") && strstr(kvl_error_text(), "tcp/lo"));
    CHECK_EQ(pair_open(&pair, "lo", NULL), KVL_OK);
    params.config = pair.config;
    if (kvl_config_set(pair.config, "KVLANE_RAILS", "rdma") == KVL_OK &&
        kvl_context_create(&params, &context) == KVL_OK) {
        kvl_context_destroy(context); /* this machine has some */
    } else {
        CHECK(strstr(kvl_error_text(), "rdma") && strstr(kvl_error_text(), "tcp/lo"));
    }
    pair_close(&pair);
}

/* Sockets whose send buffer was set to @a bytes (the kernel doubles it). */
static int sockets_with(int bytes)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;

    while (dir && (entry = readdir(dir))) {
        int value        = 0;
        socklen_t length = sizeof(value);

        if (getsockopt(atoi(entry->d_name), SOL_SOCKET, SO_SNDBUF, &value, &length) == 0 &&
            value == 2 * bytes) {
            count++;
        }
    }
    closedir(dir);
    return count;
}

TEST(ucx_options, applies_a_transport_option)
{
    pair_t pair;

    REQUIRE(pair_open(&pair, "tcp", "KVLANE_UCX_TCP_SNDBUF=37888") == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK(sockets_with(37888) >= 2);
    pair_close(&pair);
    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK_EQ(sockets_with(37888), 0);
    pair_close(&pair);
}

TEST(ucx_options, leaves_plain_transport_variables_to_ucx)
{
    pair_t pair;

    setenv("UCX_TCP_SNDBUF", "37888", 1);
    REQUIRE(pair_open(&pair, "tcp", NULL) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK(sockets_with(37888) >= 2);
    pair_close(&pair);
    REQUIRE(pair_open(&pair, "tcp", "KVLANE_UCX_TCP_SNDBUF=45056") == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    CHECK_EQ(sockets_with(37888), 0);
    CHECK(sockets_with(45056) >= 2);
    pair_close(&pair);
    unsetenv("UCX_TCP_SNDBUF");
}

static bool sent_by_rendezvous(const char *options, size_t length)
{
    pair_t pair;
    waiter_t op;
    char *source       = calloc(1, length);
    kvl_iov_t iov      = {source, length};
    kvl_am_send_t send = {.id = 3, .header = "h", .header_length = 1, .iov = &iov, .iov_count = 1};
    bool rendezvous;

    REQUIRE(pair_open(&pair, "tcp", options) == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    waiter_init(&op);
    CHECK_EQ(pair_wait(&pair, &op, kvl_ep_am(pair.a[0], &send, &op.req)), KVL_OK);
    REQUIRE(pair_until(&pair, &pair.arrived_count, 1));
    rendezvous = pair.arrived[0].rendezvous;
    pair_close(&pair);
    free(source);
    return rendezvous;
}

TEST(ucx_options, applies_an_option_of_ucp)
{
    CHECK(sent_by_rendezvous("KVLANE_UCX_RNDV_THRESH=1000", 2000));
    CHECK(!sent_by_rendezvous("KVLANE_UCX_RNDV_THRESH=100000", 2000));
}

TEST(ucx_options, turns_shared_memory_off_when_told)
{
    pair_t pair;
    kvl_ep_info_t info;

    REQUIRE(pair_open(&pair, "shm", "KVLANE_UCX_POSIX_ERROR_HANDLING=n") == KVL_OK);
    REQUIRE(pair_connect(&pair, 1) == KVL_OK);
    REQUIRE(kvl_ep_info(pair.a[0], &info) == KVL_OK);
    CHECK_STR_EQ(info.transport, "tcp");
    pair_close(&pair);
}

static char *printed(const char *rails, const char *options, bool ctrl)
{
    pair_t pair;
    kvl_context_t *context;
    kvl_context_params_t params = {.ctrl = ctrl, .device = "lo"};
    char *text                  = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (pair_open(&pair, rails, options) == KVL_OK) {
        params.config = pair.config;
        CHECK_EQ(kvl_context_create(&params, &context), KVL_OK);
        kvl_context_print(context, stream);
        kvl_context_destroy(context);
        pair_close(&pair);
    }
    fclose(stream);
    return text;
}

static void printed_has(const char *rails, const char *options, bool ctrl, const char *line)
{
    char *text = printed(rails, options, ctrl);

    CHECK_MSG(strstr(text, line) != NULL, "\"%s\" is not in:\n%s", line, text);
    free(text);
}

TEST(ucx_options, prints_what_was_set_and_why)
{
    printed_has("tcp", NULL, false, "TLS=self,tcp (KVLANE_RAILS");
    printed_has("tcp", NULL, false, "NET_DEVICES=lo (KVLANE_RAILS");
    printed_has("shm", NULL, false, "POSIX_ERROR_HANDLING=y (kvlane's default");
    printed_has("tcp", NULL, false, "TCP_TX_SEG_SIZE=256k (kvlane's default");
    printed_has("tcp", "KVLANE_UCX_TCP_TX_SEG_SIZE=64k", false,
                "TCP_TX_SEG_SIZE=64k (KVLANE_UCX_)");
    setenv("UCX_TCP_RX_SEG_SIZE", "512k", 1);
    printed_has("tcp", NULL, false, "TCP_RX_SEG_SIZE=512k (environment");
    unsetenv("UCX_TCP_RX_SEG_SIZE");
}

TEST(ucx_options, gives_the_control_context_its_own)
{
    const char *options = "KVLANE_UCX_RNDV_THRESH=7k KVLANE_CTRL_UCX_RNDV_THRESH=5k";

    printed_has("tcp", options, false, "RNDV_THRESH=7k (KVLANE_UCX_)");
    printed_has("tcp", options, true, "RNDV_THRESH=5k (KVLANE_CTRL_UCX_)");
}

TEST(ucx_options, lets_the_user_overrule_the_rails)
{
    printed_has("auto", "KVLANE_UCX_TLS=tcp,self", false, "TLS=tcp,self (KVLANE_UCX_)");
    setenv("UCX_TLS", "self,tcp", 1);
    printed_has("auto", NULL, false, "TLS=self,tcp (environment");
    printed_has("shm", NULL, false, "TLS=posix,self,tcp (KVLANE_RAILS");
    unsetenv("UCX_TLS");
}

/* Every option that this UCX lists is taken, or refused by name: none is dropped. */
TEST(ucx_options, takes_or_refuses_each_shared_memory_option)
{
    static const char *const names[] = {"POSIX_FIFO_SIZE=128", "POSIX_SEG_SIZE=16k",
                                        "POSIX_MAX_NUM_EPS=99", "TCP_MAX_NUM_EPS=99"};
    char option[80];
    pair_t pair;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(option, sizeof(option), "KVLANE_UCX_%s", names[i]);
        if (pair_open(&pair, "shm", option) == KVL_OK) {
            CHECK_EQ(pair_connect(&pair, 1), KVL_OK);
            pair_close(&pair);
        } else {
            CHECK(strstr(kvl_error_text(), names[i]) != NULL);
        }
    }
}
