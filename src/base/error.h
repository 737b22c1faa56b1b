/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread's last error text (kvl_error_text) and the one way to set it. */
#ifndef KVL_BASE_ERROR_H
#define KVL_BASE_ERROR_H

#include <kvlane/status.h>

/* Stores the text for kvl_error_text() and returns @a status, so that a failure reads
 *     return kvl_error(KVL_ERR_CONFIG, "%s=%s: not a size; accepted: 1 to 256", name, value);
 * The first function that knows says it; callers pass the status on. */
kvl_status_t kvl_error(kvl_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
