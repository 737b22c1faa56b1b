/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perftest/trace_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static size_t ids_read(const perf_trace_t *trace)
{
    return trace->requests == 0 ? 0 : trace->ends[trace->requests - 1];
}

/* room for one more request of @a count ids */
static int trace_grow(perf_trace_t *trace, size_t count)
{
    size_t needed = ids_read(trace) + count;

    if (trace->requests == trace->request_capacity) {
        size_t capacity = trace->request_capacity == 0 ? 4096 : 2 * trace->request_capacity;
        size_t *ends    = realloc(trace->ends, capacity * sizeof(*ends));

        if (ends == NULL) {
            return -1;
        }
        trace->ends             = ends;
        trace->request_capacity = capacity;
    }
    if (needed > trace->id_capacity) {
        size_t capacity = 2 * needed + 4096;
        uint64_t *ids   = realloc(trace->ids, capacity * sizeof(*ids));

        if (ids == NULL) {
            return -1;
        }
        trace->ids         = ids;
        trace->id_capacity = capacity;
    }
    return 0;
}

static int trace_add(perf_trace_t *trace, const char *line, const char *path, size_t number)
{
    json_error_t error;
    json_t *request = json_loads(line, 0, &error), *ids, *id;
    size_t at       = ids_read(trace), index;
    int status      = -1;

    if (request == NULL) {
        return perf_fail("%s:%zu: no JSON: %s", path, number, error.text);
    }
    ids = json_object_get(request, "hash_ids");
    if (!json_is_array(ids)) {
        perf_fail("%s:%zu: no array \"hash_ids\"", path, number);
        goto out;
    }
    if (trace_grow(trace, json_array_size(ids))) {
        perf_fail("%s:%zu: no memory", path, number);
        goto out;
    }
    json_array_foreach(ids, index, id)
    {
        if (!json_is_integer(id)) {
            perf_fail("%s:%zu: hash_ids[%zu] is no integer", path, number, index);
            goto out;
        }
        trace->ids[at++] = (uint64_t)json_integer_value(id);
    }
    trace->ends[trace->requests++] = at;
    trace->longest                 = index > trace->longest ? index : trace->longest;
    status                         = 0;

out:
    json_decref(request);
    return status;
}

int perf_trace_read(perf_trace_t *trace, const char *path, uint64_t limit)
{
    FILE *stream = fopen(path, "re");
    char *line   = NULL;
    size_t size = 0, number = 0;
    int status = 0;

    *trace = (perf_trace_t){0};
    if (stream == NULL) {
        return perf_fail("%s: %s", path, strerror(errno));
    }
    while (status == 0 && (limit == 0 || trace->requests < limit) &&
           getline(&line, &size, stream) > 0) {
        number++;
        if (line[strspn(line, " \t\r\n")] != '\0') {
            status = trace_add(trace, line, path, number);
        }
    }
    if (status == 0 && ferror(stream)) {
        status = perf_fail("%s: %s", path, strerror(errno));
    }
    if (status == 0 && trace->longest == 0) {
        status = perf_fail("%s: no request has a block", path);
    }
    free(line);
    fclose(stream);
    return status;
}

void perf_trace_cleanup(perf_trace_t *trace)
{
    free(trace->ids);
    free(trace->ends);
    *trace = (perf_trace_t){0};
}
