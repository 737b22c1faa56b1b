/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/work.h"

#include <cstdlib>

namespace kvlane_nixl {

namespace {

/* how long a release may take; quiet comes KVLANE_QUIESCE (20 ms) after the cancel, unless the process
 * has no processor */
constexpr int64_t RELEASE_MS = 2000;
const char timeout_name[]    = "timeout_ms=";

/* "timeout_ms=N", the one thing that a post may say of its own; "" and 0 without it */
bool custom_timeout(const PostOptions *options, int64_t *timeout_ms_p)
{
    const size_t skip = sizeof(timeout_name) - 1;
    char *end         = nullptr;

    *timeout_ms_p = 0;
    if (!options || options->custom.empty()) {
        return true;
    }
    if (options->custom.compare(0, skip, timeout_name) == 0) {
        *timeout_ms_p = strtoll(options->custom.c_str() + skip, &end, 10);
    }
    return end && !*end && *timeout_ms_p > 0;
}

} /* namespace */

Status Work::begin(const PostOptions *options, kvl_batch_params_t *params)
{
    if (batch_ && kvl_batch_release(batch_) != KVL_OK) {
        return NOT_ALLOWED;
    }
    batch_ = nullptr;
    told_  = false;
    if (!custom_timeout(options, &params->timeout_ms)) {
        complain(about_, "a post with the option \"" + options->custom + "\"; known: timeout_ms=N");
        return INVALID_PARAM;
    }
    return SUCCESS;
}

Status Work::submitted(kvl_status_t status)
{
    if (status != KVL_INPROGRESS) {
        batch_ = nullptr;
        complain(about_, kvl_error_text());
    }
    return status_of(status);
}

Status Work::test()
{
    kvl_status_t status = kvl_batch_test(batch_);

    if (status < 0 && status != KVL_ERR_CANCELED && status != KVL_ERR_CLOSED && !told_) {
        told_ = true;
        complain(about_, kvl_batch_cause(batch_));
    }
    return status_of(status);
}

Status Work::look(kvl_engine_t *engine)
{
    Status status = batch_ ? test() : SUCCESS;

    if (status == IN_PROGRESS && kvl_engine_progress(engine)) {
        status = test();
    }
    return status;
}

Status Work::end()
{
    if (batch_ && kvl_batch_test(batch_) == KVL_INPROGRESS) {
        kvl_batch_cancel(batch_);
        if (kvl_batch_wait(batch_, RELEASE_MS) == KVL_INPROGRESS) {
            complain(about_, "a canceled request is still under way: release it again");
            return BACKEND;
        }
    }
    kvl_batch_release(batch_); /* before what it held goes */
    batch_ = nullptr;
    return SUCCESS;
}

} /* namespace kvlane_nixl */
