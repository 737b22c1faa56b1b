/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Long enough for a text that lists devices or settings; longer ones are cut. */
#define ERROR_TEXT_SIZE 1024

static _Thread_local char error_text[ERROR_TEXT_SIZE];

kvl_status_t kvl_error(kvl_status_t status, const char *format, ...)
{
    char text[ERROR_TEXT_SIZE];
    va_list args;

    /* the arguments may include the old text: wrapping it with a prefix is usual */
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memcpy(error_text, text, strlen(text) + 1);
    return status;
}

const char *kvl_error_text(void)
{
    return error_text;
}
