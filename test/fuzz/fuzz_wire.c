/* SPDX-License-Identifier: BSD-3-Clause */
/* clang -fsanitize=fuzzer,address,undefined: every decoder that takes a peer's bytes.
 *     ./make_corpus corpus && ./fuzz_wire corpus */
#include "wire_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    wire_all_check(data, size);
    return 0;
}
