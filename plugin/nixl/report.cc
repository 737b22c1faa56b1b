/* SPDX-License-Identifier: BSD-3-Clause */
#include "nixl/report.h"

#include <cstdio>

namespace kvlane_nixl {

Status status_of(kvl_status_t status)
{
    switch (status) {
    case KVL_OK:
        return SUCCESS;
    case KVL_INPROGRESS:
        return IN_PROGRESS;
    case KVL_ERR_PEER:
    case KVL_ERR_UNREACHABLE:
        return REMOTE_DISCONNECT;
    case KVL_ERR_NOT_FOUND:
        return NOT_FOUND;
    case KVL_ERR_INVALID:
    case KVL_ERR_RANGE:
    case KVL_ERR_LIMIT:
        return INVALID_PARAM;
    case KVL_ERR_UNSUPPORTED:
        return NOT_SUPPORTED;
    case KVL_ERR_CANCELED:
    case KVL_ERR_CLOSED:
        return CANCELED;
    case KVL_ERR_BUSY:
        return NOT_ALLOWED;
    default: /* time-outs too: NIXL has no code for them, and the peer may well be there */
        return BACKEND;
    }
}

void complain(const std::string &agent, const std::string &text)
{
    fprintf(stderr, "kvlane: nixl agent %s: %s\n", agent.c_str(), text.c_str());
}

} /* namespace kvlane_nixl */
