/* SPDX-License-Identifier: BSD-3-Clause */
/* Names a process for good: pid, start time, pid namespace, boot. Over shared memory a node may only
 * reuse a dead client's slots, so it has to know that the client is dead (promise 5). */
#ifndef KVL_ENGINE_PROCESS_H
#define KVL_ENGINE_PROCESS_H

#include "wire/wire.h"

#include <stdbool.h>

/* Fills pid, pid_start, pid_ns, boot_id and name with this process. */
void kvl_process_identity(kvl_hello_t *hello);
/* Does @a hello name a process of this boot and pid namespace? */
bool kvl_process_is_here(const kvl_hello_t *hello);
/* ... and is it gone (no such pid, or the pid started at another time, or a zombie)? */
bool kvl_process_is_dead(const kvl_hello_t *hello);

#endif
