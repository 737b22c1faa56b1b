/* SPDX-License-Identifier: BSD-3-Clause */
/* A table may be installed while engines run (a second engine brings settings of its own), so it is
 * read and written under a lock, which only a process with faults on ever takes. A rule is chosen by
 * the number of its hit alone, so that a run with the same order of hits meets the same faults.
 * Nothing here allocates: alloc.c asks us. */
#include "base/fault.h"

#include "base/config.h"
#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_RULES_MAX 32
#define FAULT_RULE_SIZE 96
#define FAULT_PERCENT   1000 /* shares are counted in thousandths of a percent */

typedef enum { WHEN_ALWAYS, WHEN_AT, WHEN_FROM, WHEN_SHARE } fault_when_t;

typedef struct {
    kvl_fault_point_t point;
    kvl_fault_t fault;
    fault_when_t when;
    uint64_t number; /* of the hit; or the share */
} fault_rule_t;

typedef struct {
    fault_rule_t rules[FAULT_RULES_MAX];
    size_t count;
    uint64_t seed;
} fault_table_t;

typedef struct {
    const char *name;
    unsigned actions; /* bits 1 << kvl_fault_action_t that the point knows how to do */
} fault_point_row_t;

#define CAN_FAIL  (1u << KVL_FAULT_FAIL)
#define CAN_DELAY (1u << KVL_FAULT_DELAY)
#define CAN_DROP  (1u << KVL_FAULT_DROP)

static const fault_point_row_t fault_points[KVL_FAULT_COUNT] = {
    [KVL_FAULT_ALLOC]        = {"alloc", CAN_FAIL},
    [KVL_FAULT_UCP]          = {"ucp", CAN_FAIL},
    [KVL_FAULT_EP_CONNECT]   = {"ep.connect", CAN_FAIL | CAN_DELAY},
    [KVL_FAULT_EP_PUT]       = {"ep.put", CAN_FAIL},
    [KVL_FAULT_EP_GET]       = {"ep.get", CAN_FAIL},
    [KVL_FAULT_EP_AM]        = {"ep.am", CAN_FAIL | CAN_DROP},
    [KVL_FAULT_EP_FLUSH]     = {"ep.flush", CAN_FAIL},
    [KVL_FAULT_EP_COMPLETE]  = {"ep.complete", CAN_FAIL | CAN_DELAY},
    [KVL_FAULT_MEM_REGISTER] = {"mem.register", CAN_FAIL},
    [KVL_FAULT_CTRL_SEND]    = {"ctrl.send", CAN_FAIL | CAN_DROP | CAN_DELAY},
    [KVL_FAULT_CTRL_RECV]    = {"ctrl.recv", CAN_DROP | CAN_DELAY},
    [KVL_FAULT_NODE_RESERVE] = {"node.reserve", CAN_FAIL | CAN_DROP},
    [KVL_FAULT_NODE_LOOKUP]  = {"node.lookup", CAN_FAIL | CAN_DROP},
    [KVL_FAULT_NODE_COMMIT]  = {"node.commit", CAN_FAIL | CAN_DROP},
};

static const char *const fault_actions[] = {
    [KVL_FAULT_NONE]  = "none", /* not for rules */
    [KVL_FAULT_FAIL]  = "fail",
    [KVL_FAULT_DELAY] = "delay",
    [KVL_FAULT_DROP]  = "drop",
};

bool kvl_fault_enabled;

static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static fault_table_t fault_table;                        /* under fault_lock */
static atomic_uint_fast64_t fault_hits[KVL_FAULT_COUNT]; /* atomic */

static size_t append(char *text, size_t size, size_t used, const char *more)
{
    int wanted = snprintf(text + used, size - used, "%s%s", used ? " " : "", more);

    return (size_t)wanted < size - used ? used + (size_t)wanted : size - 1;
}

/* the points, or the actions of one point, as a list for an error text */
static const char *list_points(char *text, size_t size)
{
    size_t i, used = 0;

    for (i = 0; i < KVL_FAULT_COUNT; i++) {
        used = append(text, size, used, fault_points[i].name);
    }
    return text;
}

static const char *list_actions(char *text, size_t size, kvl_fault_point_t point)
{
    size_t i, used = 0;

    for (i = KVL_FAULT_FAIL; i <= KVL_FAULT_DROP; i++) {
        if (fault_points[point].actions & (1u << i)) {
            used = append(text, size, used, i == KVL_FAULT_DELAY ? "delay=TIME" : fault_actions[i]);
        }
    }
    return text;
}

static kvl_status_t parse_point(const char *rule, const char *text, fault_rule_t *parsed)
{
    char list[256];
    size_t i;

    for (i = 0; i < KVL_FAULT_COUNT; i++) {
        if (strcmp(text, fault_points[i].name) == 0) {
            parsed->point = (kvl_fault_point_t)i;
            return KVL_OK;
        }
    }
    return kvl_error(KVL_ERR_CONFIG,
                     "fault rule '%s': no such point; a rule is POINT:ACTION[@N|@N+|%%P]; "
                     "points: %s; actions: fail delay=TIME drop",
                     rule, list_points(list, sizeof(list)));
}

static kvl_status_t parse_delay(const char *rule, const char *value, fault_rule_t *parsed)
{
    if (!value) {
        return kvl_error(KVL_ERR_CONFIG, "fault rule '%s': no time; write delay=2ms", rule);
    }
    return kvl_parse_duration("fault delay", value, &parsed->fault.delay_ns);
}

static kvl_status_t parse_action(const char *rule, char *text, fault_rule_t *parsed)
{
    char list[64];
    char *value = strchr(text, '=');
    unsigned i;

    if (value) {
        *value++ = '\0';
    }
    for (i = KVL_FAULT_FAIL; i <= KVL_FAULT_DROP; i++) {
        if (strcmp(text, fault_actions[i]) == 0) {
            break;
        }
    }
    if (i > KVL_FAULT_DROP || !(fault_points[parsed->point].actions & (1u << i))) {
        return kvl_error(KVL_ERR_CONFIG, "fault rule '%s': no such action; actions of %s: %s", rule,
                         fault_points[parsed->point].name,
                         list_actions(list, sizeof(list), parsed->point));
    }
    parsed->fault.action = (kvl_fault_action_t)i;
    if (i == KVL_FAULT_DELAY) {
        return parse_delay(rule, value, parsed);
    }
    if (value) {
        return kvl_error(KVL_ERR_CONFIG, "fault rule '%s': only delay takes a value", rule);
    }
    return KVL_OK;
}

/* digits only; returns how many, 0 also if they do not fit */
static size_t scan_digits(const char *text, uint64_t *value_p)
{
    uint64_t value = 0;
    size_t n       = 0;

    for (; text[n] >= '0' && text[n] <= '9'; n++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[n] - '0'), &value)) {
            return 0;
        }
    }
    *value_p = value;
    return n;
}

static kvl_status_t parse_hit(const char *rule, const char *text, fault_rule_t *parsed)
{
    size_t n = scan_digits(text, &parsed->number);

    parsed->when = text[n] == '+' ? WHEN_FROM : WHEN_AT;
    if (n == 0 || parsed->number == 0 || (text[n] && strcmp(text + n, "+") != 0)) {
        return kvl_error(KVL_ERR_CONFIG,
                         "fault rule '%s': not the number of a hit; write @N or @N+, from 1", rule);
    }
    return KVL_OK;
}

/* "12", "0.5" or "0.001" */
static kvl_status_t parse_share(const char *rule, const char *text, fault_rule_t *parsed)
{
    uint64_t whole = 0, part = 0, digits = 0;
    size_t n  = scan_digits(text, &whole);
    bool good = n > 0 && whole <= 100;

    if (good && text[n] == '.') {
        text += n + 1;
        n = digits = scan_digits(text, &part);
        good       = digits >= 1 && digits <= 3;
    }
    for (; good && digits < 3; digits++) {
        part *= 10;
    }
    parsed->when   = WHEN_SHARE;
    parsed->number = whole * FAULT_PERCENT + part;
    if (!good || text[n] || parsed->number < 1 || parsed->number > 100 * FAULT_PERCENT) {
        return kvl_error(KVL_ERR_CONFIG,
                         "fault rule '%s': not a share; write %%P with P from 0.001 to 100", rule);
    }
    return KVL_OK;
}

static kvl_status_t parse_when(const char *rule, char kind, const char *text, fault_rule_t *parsed)
{
    if (kind == '@') {
        return parse_hit(rule, text, parsed);
    }
    return kind == '%' ? parse_share(rule, text, parsed) : KVL_OK;
}

static kvl_status_t parse_rule(const char *rule, fault_rule_t *parsed)
{
    char text[FAULT_RULE_SIZE];
    char *action, *when, kind = '\0';
    kvl_status_t st;

    memset(parsed, 0, sizeof(*parsed));
    memcpy(text, rule, strlen(rule) + 1);
    when = strpbrk(text, "@%");
    if (when) {
        kind    = *when;
        *when++ = '\0';
    }
    action = strchr(text, ':');
    if (action) {
        *action++ = '\0';
    }
    st = parse_point(rule, text, parsed);
    if (st == KVL_OK) {
        st = parse_action(rule, action ? action : text + strlen(text), parsed);
    }
    return st == KVL_OK ? parse_when(rule, kind, when, parsed) : st;
}

static kvl_status_t parse_table(const char *rules, uint64_t seed, fault_table_t *table)
{
    char rule[FAULT_RULE_SIZE];
    kvl_status_t st;

    memset(table, 0, sizeof(*table));
    table->seed = seed;
    while (rules && *rules) {
        size_t length = strcspn(rules, ",");

        if (length >= sizeof(rule) || table->count == FAULT_RULES_MAX) {
            return kvl_error(KVL_ERR_CONFIG,
                             "fault rules: over %d rules, or one over %d characters",
                             FAULT_RULES_MAX, FAULT_RULE_SIZE - 1);
        }
        snprintf(rule, sizeof(rule), "%.*s", (int)length, rules);
        st = parse_rule(rule, &table->rules[table->count++]);
        if (st != KVL_OK) {
            return st;
        }
        rules += length;
        if (*rules == ',' && *++rules == '\0') {
            return kvl_error(KVL_ERR_CONFIG, "fault rules: nothing after the last comma");
        }
    }
    return KVL_OK;
}

/* under fault_lock */
static void table_install(const fault_table_t *table)
{
    size_t i;

    fault_table = *table;
    for (i = 0; i < KVL_FAULT_COUNT; i++) {
        atomic_store(&fault_hits[i], 0);
    }
    __atomic_store_n(&kvl_fault_enabled, table->count > 0, __ATOMIC_RELAXED);
}

static bool rule_same(const fault_rule_t *a, const fault_rule_t *b)
{
    return a->point == b->point && a->fault.action == b->fault.action &&
           a->fault.delay_ns == b->fault.delay_ns && a->when == b->when && a->number == b->number;
}

static bool table_same(const fault_table_t *a, const fault_table_t *b)
{
    size_t i;

    if (a->count != b->count || a->seed != b->seed) {
        return false;
    }
    for (i = 0; i < a->count; i++) {
        if (!rule_same(&a->rules[i], &b->rules[i])) {
            return false;
        }
    }
    return true;
}

/* splitmix64's finisher: spreads what differs in any bit */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* @a index keeps two shares of one point independent */
static bool rule_applies(const fault_rule_t *rule, size_t index, uint64_t hit)
{
    switch (rule->when) {
    case WHEN_AT:
        return hit == rule->number;
    case WHEN_FROM:
        return hit >= rule->number;
    case WHEN_SHARE:
        return mix(mix(fault_table.seed + index + 1) + hit) % (100 * FAULT_PERCENT) < rule->number;
    case WHEN_ALWAYS:
    default:
        return true;
    }
}

kvl_status_t kvl_fault_setup(const char *rules, uint64_t seed)
{
    fault_table_t table;
    kvl_status_t st = parse_table(rules, seed, &table);

    if (st == KVL_OK) {
        pthread_mutex_lock(&fault_lock);
        table_install(&table);
        pthread_mutex_unlock(&fault_lock);
    }
    return st;
}

kvl_status_t kvl_fault_update(const char *rules, uint64_t seed)
{
    fault_table_t table;
    kvl_status_t st = parse_table(rules, seed, &table);

    if (st == KVL_OK) {
        pthread_mutex_lock(&fault_lock);
        if (!table_same(&table, &fault_table)) {
            table_install(&table);
        }
        pthread_mutex_unlock(&fault_lock);
    }
    return st;
}

kvl_status_t kvl_fault_check(const char *rules)
{
    fault_table_t table;

    return parse_table(rules, 0, &table);
}

/* The first rule that applies wins. */
kvl_fault_t kvl_fault_hit(kvl_fault_point_t point)
{
    kvl_fault_t fault = {KVL_FAULT_NONE, 0};
    uint64_t hit;
    size_t i;

    pthread_mutex_lock(&fault_lock);
    hit = atomic_fetch_add_explicit(&fault_hits[point], 1, memory_order_relaxed) + 1;
    for (i = 0; i < fault_table.count; i++) {
        if (fault_table.rules[i].point == point && rule_applies(&fault_table.rules[i], i, hit)) {
            fault = fault_table.rules[i].fault;
            break;
        }
    }
    pthread_mutex_unlock(&fault_lock);
    return fault;
}

uint64_t kvl_fault_hits(kvl_fault_point_t point)
{
    return atomic_load_explicit(&fault_hits[point], memory_order_relaxed);
}

const char *kvl_fault_point_name(kvl_fault_point_t point)
{
    return (unsigned)point < KVL_FAULT_COUNT ? fault_points[point].name : "unknown";
}
