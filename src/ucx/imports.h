/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that UCX's libraries import, led through kvlane. */
#ifndef KVL_UCX_IMPORTS_H
#define KVL_UCX_IMPORTS_H

#include <stdbool.h>

typedef struct {
    const char *library; /* how its file's name begins */
    const char *symbol;
    void *ours;
    void *theirs; /* what is called without us; constant once slot is set */
    void **slot;  /* NULL: not led through here */
} kvl_import_t;

/* Puts import->ours into the library's table of imported functions. False: the library, or its import, is not
 * to be found, or is somebody else's already; nothing was changed. */
bool kvl_import_lead(kvl_import_t *import);
/* Puts the table right again, before kvlane's code goes. */
void kvl_import_give_back(kvl_import_t *import);

#endif
