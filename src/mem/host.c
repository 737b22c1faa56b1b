/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/host.h"

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

/* A process may read itself this way; where a container forbids it (EPERM, ENOSYS) nothing is known, and what
 * the caller says counts. */

static bool byte_reads(uintptr_t address)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)address, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT;
}

bool kvl_host_reads(const void *address, size_t length)
{
    return byte_reads((uintptr_t)address) && byte_reads((uintptr_t)address + length - 1);
}
