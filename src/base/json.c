/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

void kvl_json_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte == '"' || byte == '\\') {
            fprintf(stream, "\\%c", byte);
        } else if (byte < 0x20) {
            fprintf(stream, "\\u%04x", byte);
        } else {
            fputc(byte < 0x7f ? byte : '?', stream);
        }
    }
    fputc('"', stream);
}

void kvl_json_member(const char *name, const char *value, const char *end, FILE *stream)
{
    fprintf(stream, "\"%s\": ", name);
    kvl_json_string(value, stream);
    fputs(end, stream);
}
