/* SPDX-License-Identifier: BSD-3-Clause */
/* Every decoder behind one door, for the fuzzer and for the unit tests: reads a message to its end and
 * writes what it read again. Bodies are canonical, so the bytes must come out as they went in. */
#ifndef KVL_TEST_WIRE_ALL_H
#define KVL_TEST_WIRE_ALL_H

#include "wire/wire.h"

/* Decodes @a data by the type in its head. On KVL_OK the message written again is in @a again (of @a
 * size bytes too; *again_p is its length) and *exact_p says whether it must equal @a data: not if a
 * text had unprintable bytes or a newer version appended something. */
kvl_status_t wire_all_message(const void *data, size_t size, void *again, size_t *again_p,
                              bool *exact_p);

/* Runs all decoders that take foreign bytes on @a data and aborts if one accepts what it does not
 * write the same way. Returns how many accepted. */
int wire_all_check(const void *data, size_t size);

/* Valid messages, at least one a type. Some fields hold their extremes. In a buffer that is too small
 * items are left out, or the length returned is 0. */
#define WIRE_SAMPLE_MAX 4096
size_t wire_all_samples(void);
size_t wire_all_sample(size_t index, void *data, size_t size, const char **name_p);

#endif
