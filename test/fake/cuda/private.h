/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the fake driver share. */
#ifndef KVL_TEST_FAKE_CUDA_PRIVATE_H
#define KVL_TEST_FAKE_CUDA_PRIVATE_H

#include "fake/cuda/fake.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICES 2

/* Everything is under this lock. */
extern pthread_mutex_t fake_lock;
extern fakecuda_counts_t fake_counts;

/* ---- context.c ---- */
/* The device of the thread's context, -1 (and counted) if it has none. */
int fake_device(void);

/* ---- memory.c ---- */
/* Where the CPU finds the byte at @a address, and how many follow it there. Host memory: where it is. NULL: a device's
 * address that nothing is mapped at. */
void *fake_place(CUdeviceptr address, size_t *left_p);
bool fake_is_device(CUdeviceptr address);
bool fake_is_pinned(const void *address, size_t length);

#endif
