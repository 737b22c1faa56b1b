/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake/cuda/private.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A stream is a row of jobs. cuEventQuery() does one of them, the first, if the event is not over yet; so a copy
 * is done neither at once nor by itself. cuStreamSynchronize() does them all, and waits where a job has to. */

typedef enum { JOB_COPY, JOB_EVENT, JOB_WAIT } job_kind_t;

typedef struct job {
    struct job *next;
    job_kind_t kind;
    CUdeviceptr to, from;
    size_t length;
    CUevent event;
    unsigned long long number;
    const volatile uint32_t *word; /* JOB_WAIT: until it is at least ... */
    uint32_t value;
} job_t;

struct CUstream_st {
    int device;
    job_t *first, **last;
};

struct CUevent_st {
    int device;
    CUstream stream; /* that it was recorded in last */
    unsigned long long recorded, reached;
    bool dead; /* destroyed before it was reached: goes then */
};

static unsigned fail_skip, fail_count;
static _Thread_local bool known;

void fakecuda_fail(unsigned skip, unsigned count);

void fakecuda_fail(unsigned skip, unsigned count)
{
    pthread_mutex_lock(&fake_lock);
    fail_skip  = skip;
    fail_count = count;
    pthread_mutex_unlock(&fake_lock);
}

/* ---- jobs ---- */

static void copy_do(const job_t *job)
{
    size_t at = 0, to_left, from_left;

    while (at < job->length) {
        uint8_t *to         = fake_place(job->to + at, &to_left);
        const uint8_t *from = fake_place(job->from + at, &from_left);
        size_t step         = job->length - at;

        step = to_left < step ? to_left : step;
        step = from_left < step ? from_left : step;
        if (!to || !from) {
            abort(); /* a real device would be lost now */
        }
        memcpy(to, from, step);
        at += step;
    }
}

/* the first job of a stream; false if there is none, or it has to wait */
static bool stream_step(CUstream stream)
{
    job_t *job = stream->first;

    if (!job || (job->kind == JOB_WAIT && *job->word < job->value)) {
        return false;
    }
    if (job->kind == JOB_COPY) {
        copy_do(job);
    } else if (job->kind == JOB_EVENT) {
        job->event->reached = job->number;
        if (job->event->dead && job->event->reached == job->event->recorded) {
            free(job->event);
        }
    }
    stream->first = job->next;
    if (!stream->first) {
        stream->last = &stream->first;
    }
    free(job);
    return true;
}

static void stream_add(CUstream stream, const job_t *about)
{
    job_t *job = malloc(sizeof(*job));

    if (!job) {
        abort();
    }
    *job          = *about;
    job->next     = NULL;
    *stream->last = job;
    stream->last  = &job->next;
}

/* under lock: may this thread use it? */
static CUresult stream_check(CUstream stream)
{
    int device = fake_device();

    if (device < 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!stream || stream->device != device) {
        fake_counts.strays++;
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *stream_p, unsigned flags)
{
    CUstream stream = calloc(1, sizeof(*stream));
    int device;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    device = fake_device();
    pthread_mutex_unlock(&fake_lock);
    if (!stream || device < 0) {
        free(stream);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stream->device = device;
    stream->last   = &stream->first;
    *stream_p      = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    if (stream->first) {
        abort(); /* nobody waited */
    }
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    const struct timespec moment = {0, 1000000};
    CUresult result;

    pthread_mutex_lock(&fake_lock);
    result = stream_check(stream);
    while (result == CUDA_SUCCESS && stream->first) {
        if (!stream_step(stream)) {
            pthread_mutex_unlock(&fake_lock);
            nanosleep(&moment, NULL);
            pthread_mutex_lock(&fake_lock);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    job_t job = {.kind = JOB_WAIT, .word = (const volatile uint32_t *)address, .value = value};
    CUresult result;

    if (flags != CU_STREAM_WAIT_VALUE_GEQ) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    result = stream_check(stream);
    if (result == CUDA_SUCCESS) {
        stream_add(stream, &job);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- copies ---- */

/* under lock */
static CUresult copy_add(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t length)
{
    job_t job    = {.kind = JOB_COPY, .to = to, .from = from, .length = length};
    bool here[2] = {false, false};
    size_t left;

    if (!fake_place(to, &left) || !fake_place(from, &left)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    here[0] = !fake_is_device(to);
    here[1] = !fake_is_device(from);
    if ((here[0] && !fake_is_pinned((void *)to, length)) || (here[1] && !fake_is_pinned((void *)from, length))) {
        fake_counts.flawed++;
    }
    if (fail_skip) {
        fail_skip--;
    } else if (fail_count) {
        fail_count--;
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    fake_counts.copies++;
    fake_counts.threads += !known;
    known = true;
    stream_add(stream, &job);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t length, CUstream stream)
{
    CUresult result;

    pthread_mutex_lock(&fake_lock);
    result = stream_check(stream);
    if (result == CUDA_SUCCESS) {
        result = copy_add(stream, to, from, length);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

#if CUDA_VERSION >= 12080
#if CUDA_VERSION >= 13000
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
                            CUmemcpyAttributes *attributes, size_t *firsts, size_t attribute_count, CUstream stream)
#else
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
                            CUmemcpyAttributes *attributes, size_t *firsts, size_t attribute_count, size_t *failed_p,
                            CUstream stream)
#endif
{
    CUresult result;
    size_t i;

    if (attribute_count != 1 || firsts[0] || attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) {
        return CUDA_ERROR_INVALID_VALUE;
    }
#if CUDA_VERSION < 13000
    *failed_p = SIZE_MAX;
#endif
    pthread_mutex_lock(&fake_lock);
    result = stream_check(stream);
    fake_counts.batches++;
    for (i = 0; result == CUDA_SUCCESS && i < count; i++) {
        result = copy_add(stream, to[i], from[i], lengths[i]);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
#endif

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    CUresult result;

    (void)target;
    (void)scope;
    pthread_mutex_lock(&fake_lock);
    result = fake_device() >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    fake_counts.flushes++;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *event_p, unsigned flags)
{
    CUevent event = calloc(1, sizeof(*event));
    int device;

    (void)flags;
    pthread_mutex_lock(&fake_lock);
    device = fake_device();
    fake_counts.events += event && device >= 0;
    pthread_mutex_unlock(&fake_lock);
    if (!event || device < 0) {
        free(event);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    event->device = device;
    *event_p      = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    pthread_mutex_lock(&fake_lock);
    event->dead = event->reached < event->recorded;
    if (!event->dead) {
        free(event);
    }
    fake_counts.events--;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult result;

    pthread_mutex_lock(&fake_lock);
    result = stream_check(stream);
    if (result == CUDA_SUCCESS && event->device != stream->device) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        job_t job = {.kind = JOB_EVENT, .event = event, .number = ++event->recorded};

        event->stream = stream;
        stream_add(stream, &job);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&fake_lock);
    if (fake_device() < 0) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (event->reached < event->recorded) {
        stream_step(event->stream);
        result = event->reached < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
