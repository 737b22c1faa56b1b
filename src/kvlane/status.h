/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file status.h
 * Status codes of every kvlane call, and how to read them.
 *
 *     kvl_status_t st = kvl_engine_create(NULL, &engine);
 *     if (st != KVL_OK) {
 *         fprintf(stderr, "%s: %s\n", kvl_status_string(st), kvl_error_text());
 *         return 1;
 *     }
 *
 * Codes are grouped by the largest thing they cost: the item alone, the rail, the peer, or the
 * batch. Recovery tests the group, never a text.
 */
#ifndef KVLANE_STATUS_H
#define KVLANE_STATUS_H

#include <kvlane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    KVL_OK         = 0,
    KVL_INPROGRESS = 1, /**< the callback fires exactly once, later */

    /* one item failed; its neighbours did not */
    KVL_ERR_NOT_FOUND = -101, /**< no such key */
    KVL_ERR_LENGTH    = -102, /**< the stored length differs from the segments' sum */
    KVL_ERR_INVALID   = -103, /**< an argument is wrong; the text names it */
    KVL_ERR_NO_SPACE  = -104, /**< the node can never hold this value */
    KVL_ERR_BUSY      = -105, /**< in use right now; trying again may succeed */
    KVL_ERR_LEASE     = -106, /**< the lease expired or was revoked before the commit */
    KVL_ERR_AMBIGUOUS = -107, /**< a put whose commit got no answer: stored or not, unknown */
    KVL_ERR_RANGE     = -108, /**< outside of what the peer exported */
    KVL_ERR_CHECKSUM  = -109, /**< the bytes do not match their checksum */

    /* a local fault: blame the rail */
    KVL_ERR_RAIL      = -201, /**< a local transport fault */
    KVL_ERR_NO_DEVICE = -202, /**< no such device or transport; the text lists what there is */
    KVL_ERR_REGISTER  = -203, /**< memory could not be registered */

    /* a remote fault: blame the peer */
    KVL_ERR_PEER        = -301, /**< the peer went away while work was under way */
    KVL_ERR_UNREACHABLE = -302, /**< cannot connect, or known to be down */
    KVL_ERR_REFUSED     = -303, /**< the peer refused this client; the text says why */
    KVL_ERR_PROTOCOL    = -304, /**< the peer sent something that makes no sense */

    /* the whole batch or call */
    KVL_ERR_TIMEOUT     = -401, /**< the deadline passed */
    KVL_ERR_CANCELED    = -402, /**< canceled by the caller */
    KVL_ERR_NO_MEMORY   = -403, /**< allocation failed */
    KVL_ERR_CONFIG      = -404, /**< a setting is unknown or wrong; the text names it */
    KVL_ERR_UNSUPPORTED = -405, /**< this build or this UCX cannot do it */
    KVL_ERR_VERSION     = -406, /**< versions do not fit */
    KVL_ERR_LIMIT       = -407, /**< over a stated limit; the text names it */
    KVL_ERR_CLOSED      = -408  /**< the object is being destroyed */
} kvl_status_t;

typedef enum {
    KVL_GROUP_NONE,  /**< KVL_OK and KVL_INPROGRESS */
    KVL_GROUP_ITEM,
    KVL_GROUP_RAIL,
    KVL_GROUP_PEER,
    KVL_GROUP_BATCH
} kvl_status_group_t;

/** A short lower-case text for @a status; static storage; never NULL, any number is accepted. */
KVL_API const char *kvl_status_string(kvl_status_t status);

/** The upper-case name without its prefix, such as "TIMEOUT" for KVL_ERR_TIMEOUT; never NULL. */
KVL_API const char *kvl_status_name(kvl_status_t status);

/** The largest thing that @a status costs. */
KVL_API kvl_status_group_t kvl_status_group(kvl_status_t status);

/**
 * The cause of the last failure of a kvlane call on the calling thread: what failed, its value
 * and the way out. Static per thread, overwritten by the next failure. Never NULL; "" if none.
 */
KVL_API const char *kvl_error_text(void);

#ifdef __cplusplus
}
#endif
#endif
