/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/job.h"

#include <stdio.h>

const char *kvl_key_text(const uint8_t *key, size_t length, char text[KVL_KEY_TEXT])
{
    size_t i, used = 0;

    for (i = 0; i < length; i++) {
        bool plain = key[i] >= 0x20 && key[i] < 0x7f && key[i] != '"' && key[i] != '\\';

        if (used + (plain ? 1 : 4) + 4 > KVL_KEY_TEXT) { /* room for "..." and the end */
            snprintf(text + used, KVL_KEY_TEXT - used, "...");
            return text;
        }
        used +=
            (size_t)snprintf(text + used, KVL_KEY_TEXT - used, plain ? "%c" : "\\x%02x", key[i]);
    }
    text[used] = '\0';
    return text;
}
