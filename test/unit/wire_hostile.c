/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer could send: cut, changed and lengthened messages of every type. Each lies in a block of
 * exactly its size, so that a sanitizer sees a read past its end. */
#include "shim/shim.h"

#include "fuzz/wire_all.h"

#include <stdlib.h>
#include <string.h>

static int check_copy(const void *data, size_t size)
{
    void *copy = malloc(size ? size : 1);
    int accepted;

    memcpy(copy, data, size);
    accepted = wire_all_check(copy, size);
    free(copy);
    return accepted;
}

TEST(wire_sample, covers_every_type_and_comes_back_the_same)
{
    uint8_t data[WIRE_SAMPLE_MAX];
    bool seen[KVL_MSG_LAST + 1] = {false};
    const char *name;
    size_t i, size;

    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        CHECK_MSG(check_copy(data, size) == 1, "%s is refused", name);
        if (strcmp(name, "data_head") != 0 && strcmp(name, "region_blob") != 0) {
            seen[data[3]] = true;
        }
    }
    for (i = 1; i <= KVL_MSG_LAST; i++) {
        CHECK_MSG(seen[i], "no sample of %s", kvl_msg_name((unsigned)i));
    }
}

TEST(wire_sample, is_refused_when_cut_at_any_place)
{
    uint8_t data[WIRE_SAMPLE_MAX];
    const char *name;
    size_t i, size, cut;

    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        for (cut = 0; cut < size; cut++) {
            CHECK_MSG(check_copy(data, cut) == 0, "%s of %zu bytes is accepted", name, cut);
        }
    }
}

TEST(wire_sample, never_leaves_a_buffer_that_is_too_small)
{
    uint8_t whole[WIRE_SAMPLE_MAX], *data;
    const char *name;
    size_t i, size, length;

    for (i = 0; i < wire_all_samples(); i++) {
        for (size = 0; size <= wire_all_sample(i, whole, WIRE_SAMPLE_MAX, &name); size++) {
            data   = malloc(size ? size : 1);
            length = wire_all_sample(i, data, size, &name);
            CHECK_MSG(length <= size, "%s in %zu bytes takes %zu", name, size, length);
            CHECK_MSG(length == 0 || check_copy(data, length) == 1, "%s in %zu bytes is refused",
                      name, size);
            free(data);
        }
    }
}

/* sets the head's count of body bytes to what the message has, so that the cut reaches the body */
static void fix_body(uint8_t *data, size_t size)
{
    size_t body = size - KVL_WIRE_HEAD_SIZE;

    data[20] = (uint8_t)body;
    data[21] = (uint8_t)(body >> 8);
}

TEST(wire_sample, is_refused_when_its_body_is_cut_and_the_head_agrees)
{
    uint8_t data[WIRE_SAMPLE_MAX], cut[WIRE_SAMPLE_MAX];
    const char *name;
    size_t i, size, length;

    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        for (length = KVL_WIRE_HEAD_SIZE; length < size; length++) {
            memcpy(cut, data, length);
            fix_body(cut, length);
            CHECK_MSG(check_copy(cut, length) == 0, "%s of %zu bytes is accepted", name, length);
        }
    }
}

TEST(wire_sample, is_refused_when_bytes_follow)
{
    uint8_t data[WIRE_SAMPLE_MAX + 1];
    const char *name;
    size_t i, size;

    for (i = 0; i < wire_all_samples(); i++) {
        size       = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        data[size] = 0;
        CHECK_MSG(check_copy(data, size + 1) == 0, "%s with a byte more is accepted", name);
        if (size > KVL_WIRE_HEAD_SIZE && data[0] == 'L') {
            fix_body(data, size + 1);
            CHECK_MSG(check_copy(data, size + 1) == 0, "%s with a byte more is accepted", name);
        }
    }
}

/* wire_all_check() aborts if what is accepted does not come back the same */
TEST(wire_sample, does_no_harm_with_any_byte_changed)
{
    static const uint8_t changes[] = {0x01, 0x02, 0x80, 0xff, 0x7f, 0x10};
    uint8_t data[WIRE_SAMPLE_MAX];
    const char *name;
    size_t i, size, at, c;

    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        for (at = 0; at < size; at++) {
            for (c = 0; c < sizeof(changes); c++) {
                data[at] ^= changes[c];
                check_copy(data, size);
                data[at] ^= changes[c];
            }
        }
    }
}

TEST(wire_sample, does_no_harm_as_any_other_type)
{
    uint8_t data[WIRE_SAMPLE_MAX];
    const char *name;
    size_t i, size, type;

    for (i = 0; i < wire_all_samples(); i++) {
        size = wire_all_sample(i, data, WIRE_SAMPLE_MAX, &name);
        for (type = 0; type < 256; type++) {
            data[3] = (uint8_t)type;
            check_copy(data, size);
        }
    }
}
