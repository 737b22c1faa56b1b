/* SPDX-License-Identifier: BSD-3-Clause */
/* The doctor's own small load: how fast a session is. */
#ifndef KVL_TOOLS_DOCTOR_LOAD_H
#define KVL_TOOLS_DOCTOR_LOAD_H

#include "tools/doctor.h"

#include <kvlane/cache.h>

/* Latency of lookups, then puts and gets of values of its own, every byte of which is compared; tells a finding each.
 * Takes half a second. @a pair names them. The values are removed again. */
void kvl_doctor_load(kvl_doctor_t *doctor, kvl_engine_t *engine, kvl_cache_t *cache,
                     const char *pair);

#endif
