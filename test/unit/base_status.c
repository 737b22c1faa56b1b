/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/shim.h"

#include "base/error.h"

#include <pthread.h>
#include <string.h>

TEST(status_group, follows_the_largest_thing_a_code_costs)
{
    CHECK_EQ(kvl_status_group(KVL_OK), KVL_GROUP_NONE);
    CHECK_EQ(kvl_status_group(KVL_INPROGRESS), KVL_GROUP_NONE);
    CHECK_EQ(kvl_status_group(KVL_ERR_NOT_FOUND), KVL_GROUP_ITEM);
    CHECK_EQ(kvl_status_group(KVL_ERR_CHECKSUM), KVL_GROUP_ITEM);
    CHECK_EQ(kvl_status_group(KVL_ERR_RAIL), KVL_GROUP_RAIL);
    CHECK_EQ(kvl_status_group(KVL_ERR_REGISTER), KVL_GROUP_RAIL);
    CHECK_EQ(kvl_status_group(KVL_ERR_PEER), KVL_GROUP_PEER);
    CHECK_EQ(kvl_status_group(KVL_ERR_PROTOCOL), KVL_GROUP_PEER);
    CHECK_EQ(kvl_status_group(KVL_ERR_TIMEOUT), KVL_GROUP_BATCH);
    CHECK_EQ(kvl_status_group(KVL_ERR_CLOSED), KVL_GROUP_BATCH);
}

TEST(status_group, places_codes_of_a_newer_peer_by_their_range)
{
    CHECK_EQ(kvl_status_group((kvl_status_t)-199), KVL_GROUP_ITEM);
    CHECK_EQ(kvl_status_group((kvl_status_t)-250), KVL_GROUP_RAIL);
    CHECK_EQ(kvl_status_group((kvl_status_t)-399), KVL_GROUP_PEER);
    CHECK_EQ(kvl_status_group((kvl_status_t)-1), KVL_GROUP_BATCH);
    CHECK_EQ(kvl_status_group((kvl_status_t)-100), KVL_GROUP_BATCH);
    CHECK_EQ(kvl_status_group((kvl_status_t)-9999), KVL_GROUP_BATCH);
}

TEST(status_name, is_the_code_without_its_prefix)
{
    CHECK_STR_EQ(kvl_status_name(KVL_OK), "OK");
    CHECK_STR_EQ(kvl_status_name(KVL_ERR_TIMEOUT), "TIMEOUT");
    CHECK_STR_EQ(kvl_status_name(KVL_ERR_AMBIGUOUS), "AMBIGUOUS");
    CHECK_STR_EQ(kvl_status_name((kvl_status_t)-12345), "UNKNOWN");
}

TEST(status_string, knows_every_code_of_the_header)
{
    static const int last[] = {-109, -203, -304, -408};
    int group, code;

    for (group = 0; group < 4; group++) {
        for (code = -101 - 100 * group; code >= last[group]; code--) {
            CHECK(strcmp(kvl_status_string((kvl_status_t)code), "unknown status") != 0);
            CHECK(strcmp(kvl_status_name((kvl_status_t)code), "UNKNOWN") != 0);
        }
        CHECK_STR_EQ(kvl_status_string((kvl_status_t)code), "unknown status");
    }
}

TEST(error_set, stores_the_text_and_returns_the_status)
{
    CHECK_EQ(kvl_error(KVL_ERR_LIMIT, "peer %d: %s", 7, "full"), KVL_ERR_LIMIT);
    CHECK_STR_EQ(kvl_error_text(), "peer 7: full");
}

TEST(error_set, may_wrap_the_old_text)
{
    kvl_error(KVL_ERR_LIMIT, "inner");
    kvl_error(KVL_ERR_LIMIT, "outer: %s", kvl_error_text());
    CHECK_STR_EQ(kvl_error_text(), "outer: inner");
}

TEST(error_set, cuts_what_is_too_long)
{
    char text[4000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    kvl_error(KVL_ERR_LIMIT, "%s", text);
    CHECK(strlen(kvl_error_text()) < sizeof(text) - 1);
    CHECK(strlen(kvl_error_text()) > 500);
    CHECK_EQ(kvl_error_text()[0], 'x');
}

static void *other_thread(void *arg)
{
    *(size_t *)arg = strlen(kvl_error_text());
    kvl_error(KVL_ERR_LIMIT, "other");
    return NULL;
}

TEST(error_text, belongs_to_one_thread)
{
    size_t length_there = 99;
    pthread_t thread;

    kvl_error(KVL_ERR_LIMIT, "mine");
    REQUIRE(pthread_create(&thread, NULL, other_thread, &length_there) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(length_there, 0);
    CHECK_STR_EQ(kvl_error_text(), "mine");
}
