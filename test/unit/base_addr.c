/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/addr.h"
#include "base/error.h"

#include <string.h>

static const char *again(const char *text)
{
    static char formatted[128];
    kvl_addr_t addr;

    if (kvl_addr_parse(text, &addr) != KVL_OK) {
        return "refused";
    }
    kvl_addr_format((const struct sockaddr *)&addr.storage, formatted, sizeof(formatted));
    return formatted;
}

TEST(addr_parse, reads_both_families)
{
    CHECK_STR_EQ(again("10.0.0.7:7700"), "10.0.0.7:7700");
    CHECK_STR_EQ(again("[::1]:7700"), "[::1]:7700");
    CHECK_STR_EQ(again("[2001:db8::7]:65535"), "[2001:db8::7]:65535");
    CHECK_STR_EQ(again("[10.0.0.7]:1"), "10.0.0.7:1");
}

TEST(addr_parse, gives_bytes_in_network_order)
{
    kvl_addr_t addr;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&addr.storage;

    REQUIRE(kvl_addr_parse("1.2.3.4:258", &addr) == KVL_OK);
    CHECK_EQ(addr.length, sizeof(*in));
    CHECK_EQ(in->sin_family, AF_INET);
    CHECK_MEM_EQ(&in->sin_port, "\x01\x02", 2);
    CHECK_MEM_EQ(&in->sin_addr, "\x01\x02\x03\x04", 4);
}

TEST(addr_parse, reads_any_addresses)
{
    CHECK_STR_EQ(again("*:0"), "0.0.0.0:0");
    CHECK_STR_EQ(again(":7700"), "0.0.0.0:7700");
    CHECK_STR_EQ(again("[::]:7700"), "[::]:7700");
}

TEST(addr_parse, resolves_a_name_to_ipv4_when_it_can)
{
    CHECK_STR_EQ(again("localhost:80"), "127.0.0.1:80");
}

TEST(addr_parse, names_the_text_and_the_fault)
{
    static const char *const bad[][2] = {
        {"", "no port"},
        {"host", "no port"},
        {"10.0.0.7:", "port"},
        {"10.0.0.7:65536", "port"},
        {"10.0.0.7:123456", "port"},
        {"10.0.0.7:-1", "port"},
        {"10.0.0.7:80x", "port"},
        {"::1:7700", "brackets"},
        {"[::1]", "bracket"},
        {"[::1:7700", "bracket"},
        {"[]:7700", "bracket"},
        {"[::1]x:7700", "bracket"},
    };
    kvl_addr_t addr;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(kvl_addr_parse(bad[i][0], &addr), KVL_ERR_INVALID);
        CHECK(strstr(kvl_error_text(), bad[i][0]) != NULL);
        CHECK(strstr(kvl_error_text(), bad[i][1]) != NULL);
    }
    CHECK_EQ(kvl_addr_parse(NULL, &addr), KVL_ERR_INVALID);
}

TEST(addr_parse, blames_no_format_for_a_host_without_an_address)
{
    kvl_addr_t addr;

    CHECK_EQ(kvl_addr_parse("a..b:7700", &addr), KVL_ERR_UNREACHABLE);
    CHECK(strstr(kvl_error_text(), "host a..b: ") && !strstr(kvl_error_text(), "accepted"));
}

TEST(addr_parse, refuses_a_host_that_is_too_long)
{
    char text[400];
    kvl_addr_t addr;

    memset(text, 'a', sizeof(text));
    strcpy(text + 300, ":80");
    CHECK_EQ(kvl_addr_parse(text, &addr), KVL_ERR_INVALID);
    CHECK(strstr(kvl_error_text(), "too long") != NULL);
}

TEST(addr_format, cuts_to_the_given_size_and_names_odd_families)
{
    struct sockaddr odd = {.sa_family = 250};
    kvl_addr_t addr;
    char text[8], whole[32];

    REQUIRE(kvl_addr_parse("10.20.30.40:5000", &addr) == KVL_OK);
    kvl_addr_format((const struct sockaddr *)&addr.storage, text, sizeof(text));
    CHECK_STR_EQ(text, "10.20.3");
    kvl_addr_format(&odd, whole, sizeof(whole));
    CHECK_STR_EQ(whole, "(family 250)");
}

TEST(addr_device, finds_the_loopback)
{
    kvl_addr_t addr;
    char device[32] = "";

    REQUIRE(kvl_addr_parse("127.0.0.1:7700", &addr) == KVL_OK);
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_OK);
    CHECK_STR_EQ(device, "lo");
    /* nobody's own address, but the kernel routes all of 127/8 there */
    REQUIRE(kvl_addr_parse("127.9.9.9:7700", &addr) == KVL_OK);
    device[0] = '\0';
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_OK);
    CHECK_STR_EQ(device, "lo");
}

TEST(addr_device, finds_the_loopback_of_ipv6_where_there_is_one)
{
    kvl_addr_t addr;
    char device[32] = "";
    kvl_status_t st;

    REQUIRE(kvl_addr_parse("[::1]:7700", &addr) == KVL_OK);
    st = kvl_addr_device(&addr, device, sizeof(device));
    if (st == KVL_ERR_NOT_FOUND) {
        SKIP("no ipv6 on this machine");
    }
    CHECK_EQ(st, KVL_OK);
    CHECK_STR_EQ(device, "lo");
}

TEST(addr_device, has_none_without_a_route)
{
    kvl_addr_t addr;
    char device[32] = "unchanged";

    /* the kernel refuses to send to all without being asked to */
    REQUIRE(kvl_addr_parse("255.255.255.255:7700", &addr) == KVL_OK);
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_ERR_NOT_FOUND);
    CHECK(strstr(kvl_error_text(), "255.255.255.255:7700") != NULL);
    CHECK_STR_EQ(device, "unchanged");
}

TEST(addr_device, has_none_for_any_address_or_a_strange_family)
{
    kvl_addr_t addr;
    char device[32] = "unchanged";

    REQUIRE(kvl_addr_parse("*:7700", &addr) == KVL_OK);
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_ERR_NOT_FOUND);
    REQUIRE(kvl_addr_parse("[::]:7700", &addr) == KVL_OK);
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_ERR_NOT_FOUND);
    addr.storage.ss_family = AF_UNIX;
    CHECK_EQ(kvl_addr_device(&addr, device, sizeof(device)), KVL_ERR_NOT_FOUND);
    CHECK_STR_EQ(device, "unchanged");
}
