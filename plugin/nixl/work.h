/* SPDX-License-Identifier: BSD-3-Clause */
/* What a request of NIXL is while it is posted: one batch of kvlane's at a time. */
#ifndef KVL_PLUGIN_NIXL_WORK_H
#define KVL_PLUGIN_NIXL_WORK_H

#include "nixl/report.h"

#include <kvlane/engine.h>

#include <algorithm>
#include <memory>

namespace kvlane_nixl {

/* adds it to what a request holds, once */
template <class Held> void hold(std::vector<std::shared_ptr<Held>> &list, const std::shared_ptr<Held> &it)
{
    if ((list.empty() || list.back() != it) && std::find(list.begin(), list.end(), it) == list.end()) {
        list.push_back(it);
    }
}

class Work : public Request {
  public:
    /* @a about: the agent or node that complaints name */
    explicit Work(std::string about) : about_(std::move(about)) {}
    ~Work() override { kvl_batch_release(batch_); }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;

    const std::string &about() const { return about_; }
    /* A post may begin; @a params has its deadline, from the post's own "timeout_ms=N". NOT_ALLOWED: the last one is
     * under way; INVALID_PARAM: another text than that. */
    Status begin(const PostOptions *options, kvl_batch_params_t *params);
    /* for the submit call */
    kvl_batch_t **batch() { return &batch_; }
    Status submitted(kvl_status_t status);

    /* Where the last post stands; a failure is told once. Does the engine's work if there is some. */
    Status look(kvl_engine_t *engine);
    /* Ends what is under way. After SUCCESS nothing of it touches any memory, here or there. */
    Status end();

  private:
    Status test();

    const std::string about_;
    kvl_batch_t *batch_ = nullptr; /* of the last post */
    bool told_          = false;   /* its failure */
};

} /* namespace kvlane_nixl */

#endif
