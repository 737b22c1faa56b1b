/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KVL_MEM_HOST_H
#define KVL_MEM_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Can the CPU read the first and the last byte? Asks the kernel, which answers where a look would kill. */
bool kvl_host_reads(const void *address, size_t length);

#endif
