/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of src/mem share. */
#ifndef KVL_MEM_PRIVATE_H
#define KVL_MEM_PRIVATE_H

#include "mem/device.h"
#include "mem/driver.h"

#ifdef KVL_HAVE_CUDA

#include <stdatomic.h>

struct kvl_device {
    /* constant once `ready` */
    unsigned number;
    char name[16];
    CUcontext context;   /* the primary one, retained */
    CUstream streams[2]; /* by kvl_copy_dir_t: the ways do not wait for each other */
    _Atomic bool ready;
};

/* Makes the context the thread's; KVL_ERR_INVALID if the driver would not. Then the driver may be called. */
kvl_status_t kvl_device_begin(kvl_device_t *device, const kvl_driver_t **driver_p);
void kvl_device_end(void);
/* KVL_OK, or an error with a text: @a call of the driver failed. */
kvl_status_t kvl_device_result(CUresult result, const kvl_device_t *device, const char *call);

#endif
#endif
