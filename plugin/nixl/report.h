/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of a failure: a number to NIXL, a line to a person. */
#ifndef KVL_PLUGIN_NIXL_REPORT_H
#define KVL_PLUGIN_NIXL_REPORT_H

#include "nixl/abi.h"

#include <kvlane/status.h>

namespace kvlane_nixl {

Status status_of(kvl_status_t status);
/* one line to stderr: NIXL passes on a number alone */
void complain(const std::string &agent, const std::string &text);

} /* namespace kvlane_nixl */

#endif
