/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts to values. The scanners return NULL or the reason as a static text; whoever called knows the
 * name and the source of the value and says them. */
#include "base/clock.h"
#include "base/config_row.h"
#include "base/error.h"
#include "base/fault.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TOO_LARGE "does not fit in 64 bits"

typedef struct {
    const char *name;
    uint64_t factor;
} unit_t;

/* largest first, for printing */
static const unit_t byte_units[] = {
    {"G", UINT64_C(1) << 30}, {"M", UINT64_C(1) << 20}, {"K", UINT64_C(1) << 10}, {NULL, 1}};
static const unit_t time_units[] = {
    {"m", 60 * UINT64_C(1000000000)}, {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {NULL, 1}};

/* digits at the start of @a text, no sign, no blanks; @a rest_p is what follows */
static const char *scan_number(const char *text, uint64_t *value_p, const char **rest_p)
{
    uint64_t value = 0;
    const char *at = text;

    if (!*text) {
        return "empty";
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return TOO_LARGE;
        }
    }
    if (at == text) {
        return "not a number";
    }
    *value_p = value;
    *rest_p  = at;
    return NULL;
}

static const char *scan_plain(const char *text, uint64_t *value_p)
{
    const char *rest;
    const char *why = scan_number(text, value_p, &rest);

    return !why && *rest ? "not a number" : why;
}

static const char *scan_bytes(const char *text, uint64_t *value_p)
{
    const char *rest, *why;
    uint64_t factor = 1;
    const unit_t *unit;

    why = scan_number(text, value_p, &rest);
    if (why) {
        return why;
    }
    for (unit = byte_units; unit->name; unit++) {
        if (toupper((unsigned char)*rest) == *unit->name) {
            factor = unit->factor;
            rest++;
            break;
        }
    }
    if (*rest && strcmp(rest, "B") != 0 && (factor == 1 || strcmp(rest, "iB") != 0)) {
        return "not a size";
    }
    return __builtin_mul_overflow(*value_p, factor, value_p) ? TOO_LARGE : NULL;
}

static const char *scan_duration(const char *text, uint64_t *value_p)
{
    const char *rest, *why;
    const unit_t *unit;

    why = scan_number(text, value_p, &rest);
    if (why) {
        return why;
    }
    if (!*rest) {
        rest = "s";
    }
    for (unit = time_units; unit->name && strcmp(unit->name, rest) != 0; unit++) {
    }
    if (!unit->name) {
        return "not a duration";
    }
    if (__builtin_mul_overflow(*value_p, unit->factor, value_p) || *value_p > INT64_MAX) {
        return TOO_LARGE;
    }
    return NULL;
}

static const char *scan_choice(const kvl_row_t *row, const char *text, uint64_t *value_p)
{
    uint64_t i;

    for (i = 0; row->choices[i]; i++) {
        if (strcasecmp(row->choices[i], text) == 0) {
            *value_p = i;
            return NULL;
        }
    }
    return *text ? "unknown word" : "empty";
}

static const char *scan_value(const kvl_row_t *row, const char *text, uint64_t *value_p)
{
    switch (row->type) {
    case KVL_ROW_BYTES:
        return scan_bytes(text, value_p);
    case KVL_ROW_DURATION:
        return scan_duration(text, value_p);
    case KVL_ROW_COUNT:
    case KVL_ROW_NUMBER:
    default:
        return scan_plain(text, value_p);
    }
}

static const char *check_rails(const char *text)
{
    if (!*text) {
        return "empty";
    }
    for (;;) {
        size_t length = strcspn(text, ",");

        if (length == 0) {
            return "an empty name in the list";
        }
        for (; length > 0; length--, text++) {
            if (!isgraph((unsigned char)*text)) {
                return "a blank or an unprintable character in the list";
            }
        }
        if (!*text++) {
            return NULL;
        }
    }
}

/* where the table says; enums have the size of unsigned */
static void store(const kvl_row_t *row, uint64_t value, kvl_settings_t *settings)
{
    char *place     = (char *)settings + row->offset;
    unsigned narrow = (unsigned)value;

    if (row->type == KVL_ROW_COUNT || row->type == KVL_ROW_CHOICE) {
        memcpy(place, &narrow, sizeof(narrow));
    } else {
        memcpy(place, &value, sizeof(value));
    }
}

static const char *check_text(const char *text)
{
    for (; *text; text++) {
        if (!isgraph((unsigned char)*text)) {
            return "a blank or an unprintable character";
        }
    }
    return NULL;
}

static const char *parse_text(const kvl_row_t *row, const char *text, kvl_settings_t *settings)
{
    const char *why = NULL;

    if (row->type == KVL_ROW_RAILS) {
        why = check_rails(text);
    } else if (row->type == KVL_ROW_TEXT) {
        why = check_text(text);
    } else if (kvl_fault_check(text) != KVL_OK) {
        why = kvl_error_text();
    }
    if (!why) {
        memcpy((char *)settings + row->offset, &text, sizeof(text));
    }
    return why;
}

const char *kvl_row_parse(const kvl_row_t *row, const char *text, kvl_settings_t *settings)
{
    uint64_t value;
    const char *why;

    if (row->type == KVL_ROW_RAILS || row->type == KVL_ROW_FAULT || row->type == KVL_ROW_TEXT) {
        return parse_text(row, text, settings);
    }
    if (row->type == KVL_ROW_PACK && strcasecmp(text, "auto") == 0) {
        store(row, KVL_PACK_AUTO, settings);
        return NULL;
    }
    if (row->type == KVL_ROW_CHOICE) {
        why = scan_choice(row, text, &value);
    } else {
        why = row->type == KVL_ROW_PACK ? scan_bytes(text, &value) : scan_value(row, text, &value);
        if (!why && (value < row->min || value > row->max)) {
            why = "out of range";
        }
    }
    if (!why) {
        store(row, value, settings);
    }
    return why;
}

static const char *format_value(const unit_t *unit, uint64_t value, char *text, size_t size)
{
    while (unit->name && (value == 0 || value % unit->factor != 0)) {
        unit++;
    }
    snprintf(text, size, "%" PRIu64 "%s", value / unit->factor, unit->name ? unit->name : "");
    return text;
}

static void accept_range(const unit_t *units, const kvl_row_t *row, char *text, size_t size)
{
    char min[32], max[32];

    snprintf(text, size, "%s%s to %s%s", row->type == KVL_ROW_PACK ? "auto, " : "",
             format_value(units, row->min, min, sizeof(min)),
             format_value(units, row->max, max, sizeof(max)),
             row->type == KVL_ROW_DURATION ? " (units us, ms, s, m)"
             : units->name                 ? " (bytes, or with K, M, G)"
                                           : "");
}

static void accept_choices(const kvl_row_t *row, char *text, size_t size)
{
    size_t i, used = 0;

    *text = '\0';
    for (i = 0; row->choices[i] && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", row->choices[i]);
    }
}

void kvl_row_accepted(const kvl_row_t *row, char *text, size_t size)
{
    static const unit_t plain = {NULL, 1};

    switch (row->type) {
    case KVL_ROW_CHOICE:
        accept_choices(row, text, size);
        break;
    case KVL_ROW_RAILS:
        snprintf(text, size, "auto, tcp, shm, rdma, or device names with commas; ^ before those not to use");
        break;
    case KVL_ROW_TEXT:
        snprintf(text, size, "a word");
        break;
    case KVL_ROW_FAULT:
        snprintf(text, size, "POINT:ACTION[=VALUE][@N|@N+|%%P],...");
        break;
    case KVL_ROW_DURATION:
        accept_range(time_units, row, text, size);
        break;
    case KVL_ROW_BYTES:
    case KVL_ROW_PACK:
        accept_range(byte_units, row, text, size);
        break;
    default:
        accept_range(&plain, row, text, size);
    }
}

const char *kvl_row_unit(const kvl_row_t *row)
{
    switch (row->type) {
    case KVL_ROW_BYTES:
    case KVL_ROW_PACK:
        return "bytes";
    case KVL_ROW_DURATION:
        return "time";
    default:
        return "";
    }
}

kvl_status_t kvl_parse_bytes(const char *what, const char *text, uint64_t *bytes_p)
{
    uint64_t value  = 0;
    const char *why = scan_bytes(text, &value);

    if (why) {
        return kvl_error(KVL_ERR_CONFIG, "%s=%s: %s; accepted: a number of bytes, or with K, M, G",
                         what, text, why);
    }
    *bytes_p = value;
    return KVL_OK;
}

kvl_status_t kvl_parse_duration(const char *what, const char *text, int64_t *ns_p)
{
    uint64_t value  = 0;
    const char *why = scan_duration(text, &value);

    if (why) {
        return kvl_error(KVL_ERR_CONFIG,
                         "%s=%s: %s; accepted: a number with us, ms, s or m (bare: seconds)", what,
                         text, why);
    }
    *ns_p = (int64_t)value;
    return KVL_OK;
}
