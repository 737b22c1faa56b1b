/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/report.h"

#include "base/json.h"

/* CPU seconds per 10^9 bytes; 0 if no bytes moved; negative: unknown */
static double per_gb(const perf_result_t *result, double seconds)
{
    if (seconds < 0) {
        return -1;
    }
    return result->bytes > 0 ? seconds / ((double)result->bytes / PERF_GB) : 0;
}

static double hit_rate(const perf_result_t *result)
{
    return result->blocks > 0 ? (double)result->hits / (double)result->blocks : 0;
}

bool perf_result_is_wrong(const perf_result_t *result, char *text, size_t size)
{
    if (result->wrong_bytes > 0) {
        snprintf(text, size, "%llu wrong bytes", (unsigned long long)result->wrong_bytes);
    } else if (result->failed_items > 0) {
        snprintf(text, size, "%llu wrong answers", (unsigned long long)result->failed_items);
    }
    return result->wrong_bytes > 0 || result->failed_items > 0;
}

/* ---- JSON ---- */

static void json_cpu(const char *name, double value)
{
    if (value < 0) {
        printf(", \"%s\": null", name);
    } else {
        printf(", \"%s\": %.6f", name, value);
    }
}

static void json_count(const char *name, uint64_t value)
{
    printf(", \"%s\": %llu", name, (unsigned long long)value);
}

static void json_real(const char *name, double value)
{
    printf(", \"%s\": %.6f", name, value);
}

static void json_us(const char *name, double value)
{
    printf(", \"%s\": %.3f", name, value);
}

static void json_extra(const perf_result_t *result)
{
    if (result->has_exists) {
        json_us("exists_idle_p50_us", result->idle_p50_us);
        json_us("exists_idle_p99_us", result->idle_p99_us);
        json_us("exists_bulk_p50_us", result->bulk_p50_us);
        json_us("exists_bulk_p99_us", result->bulk_p99_us);
    }
    if (result->has_retrieve) {
        json_count("tokens", result->tokens);
        json_real("lookup_seconds", result->lookup_seconds);
        json_real("tokens_per_s", result->tokens_per_s);
    }
    if (result->has_trace) {
        json_count("requests", result->requests);
        json_count("blocks", result->blocks);
        json_count("hits", result->hits);
        json_real("hit_rate", hit_rate(result));
        json_us("lookup_p50_us", result->lookup_p50_us);
        json_us("lookup_p99_us", result->lookup_p99_us);
        json_us("get_p50_us", result->get_p50_us);
        json_us("get_p99_us", result->get_p99_us);
        json_us("put_p50_us", result->put_p50_us);
        json_us("put_p99_us", result->put_p99_us);
    }
}

static void json_error(const char *why)
{
    printf(", \"error\": ");
    kvl_json_string(why, stdout);
}

void perf_report_failure(const char *test, const char *why)
{
    printf("{\"test\": ");
    kvl_json_string(test, stdout);
    json_error(why);
    printf("}\n");
    fflush(stdout);
}

static void report_json(const perf_result_t *result)
{
    char why[96];

    printf("{\"test\": \"%s\", \"transport\": \"%s\", \"mode\": \"%s\"", result->test,
           result->transport, result->mode);
    json_count("size", result->size);
    json_count("segments", result->segments);
    json_count("batch", result->batch);
    json_count("depth", result->depth);
    json_count("endpoints", result->endpoints);
    json_count("items", result->items);
    json_count("bytes", result->bytes);
    json_real("seconds", result->seconds);
    json_real("gbps", perf_gbps(result));
    json_us("p50_us", result->p50_us);
    json_us("p99_us", result->p99_us);
    json_cpu("cpu_s_per_gb_client", per_gb(result, result->cpu_client));
    json_cpu("cpu_s_per_gb_server", per_gb(result, result->cpu_server));
    json_count("verified_bytes", result->verified_bytes);
    json_count("wrong_bytes", result->wrong_bytes);
    json_extra(result);
    if (perf_result_is_wrong(result, why, sizeof(why))) {
        json_error(why);
    }
    printf("}\n");
}

/* ---- CSV ---- */

static void report_csv(const perf_result_t *result, bool first)
{
    double server = per_gb(result, result->cpu_server);

    if (first) {
        printf("test,transport,mode,size,segments,batch,depth,endpoints,items,bytes,seconds,gbps,"
               "p50_us,p99_us,cpu_s_per_gb_client,cpu_s_per_gb_server,verified_bytes,wrong_bytes,"
               "exists_idle_p50_us,exists_idle_p99_us,exists_bulk_p50_us,exists_bulk_p99_us\n");
    }
    printf("%s,%s,%s,%llu,%u,%u,%u,%u,%llu,%llu,%.6f,%.6f,%.3f,%.3f,%.6f,", result->test,
           result->transport, result->mode, (unsigned long long)result->size, result->segments,
           result->batch, result->depth, result->endpoints, (unsigned long long)result->items,
           (unsigned long long)result->bytes, result->seconds, perf_gbps(result), result->p50_us,
           result->p99_us, per_gb(result, result->cpu_client));
    if (server >= 0) {
        printf("%.6f", server);
    }
    printf(",%llu,%llu", (unsigned long long)result->verified_bytes,
           (unsigned long long)result->wrong_bytes);
    if (result->has_exists) {
        printf(",%.3f,%.3f,%.3f,%.3f\n", result->idle_p50_us, result->idle_p99_us,
               result->bulk_p50_us, result->bulk_p99_us);
    } else {
        printf(",,,,\n");
    }
}

/* ---- table ---- */

static void table_extra(const perf_result_t *result)
{
    if (result->lanes[0] != '\0') {
        printf("           %s\n", result->lanes);
    }
    if (result->has_exists) {
        printf("           exists of %u keys: idle p50 %.1f us, p99 %.1f us; beside the pages p50 "
               "%.1f us, p99 %.1f us\n",
               result->batch, result->idle_p50_us, result->idle_p99_us, result->bulk_p50_us,
               result->bulk_p99_us);
    }
    if (result->has_retrieve) {
        printf("           %llu tokens in %.3f s (lookup %.3f s): %.0f tokens/s\n",
               (unsigned long long)result->tokens, result->seconds, result->lookup_seconds,
               result->tokens_per_s);
    }
    if (result->has_trace) {
        printf(
            "           %llu requests, %llu blocks, hit rate %.1f %%; p50/p99 us: lookup %.0f/%.0f, "
            "get %.0f/%.0f, put %.0f/%.0f\n",
            (unsigned long long)result->requests, (unsigned long long)result->blocks,
            100 * hit_rate(result), result->lookup_p50_us, result->lookup_p99_us,
            result->get_p50_us, result->get_p99_us, result->put_p50_us, result->put_p99_us);
    }
}

static void table_cpu(double value)
{
    if (value < 0) {
        printf(" %6s", "?");
    } else {
        printf(" %6.3f", value);
    }
}

static void report_table(const perf_result_t *result, bool first)
{
    char size[32], item[48], verified[32];

    if (first) {
        printf("%-9s  %-9s  %-9s %10s %5s %5s %4s %8s %8s %9s %9s %6s %6s %9s %9s\n", "test",
               "transport", "mode", "size", "batch", "depth", "eps", "items", "GB/s", "p50 us",
               "p99 us", "cpu c", "cpu s", "verified", "wrong");
    }
    perf_format_bytes(result->size, size, sizeof(size));
    perf_format_bytes(result->verified_bytes, verified, sizeof(verified));
    snprintf(item, sizeof(item), result->segments > 1 ? "%s:%u" : "%s", size, result->segments);
    printf("%-9s  %-9s  %-9s %10s %5u %5u %4u %8llu %8.3f %9.1f %9.1f", result->test,
           result->transport, result->mode, item, result->batch, result->depth, result->endpoints,
           (unsigned long long)result->items, perf_gbps(result), result->p50_us, result->p99_us);
    table_cpu(per_gb(result, result->cpu_client));
    table_cpu(per_gb(result, result->cpu_server));
    printf(" %9s %9llu\n", verified, (unsigned long long)result->wrong_bytes);
    table_extra(result);
}

void perf_report(const perf_options_t *options, const perf_result_t *result, bool first)
{
    if (options->json) {
        report_json(result);
    } else if (options->csv) {
        report_csv(result, first);
    } else {
        report_table(result, first);
    }
    fflush(stdout);
}
