# SPDX-License-Identifier: BSD-3-Clause
"""LMCache over kvlane: an L2 adapter of LMCache's server.

    --l2-adapter '{"type": "plugin", "module_path": "kvlane_lmcache", "class_name": "KvlaneL2Adapter",
      "adapter_params": {"node": "10.0.0.7:7700"}}'

registers LMCache's L1 memory once. The same with "native_plugin" and "KvlaneConnector" is not told where that
is, and registers what it moves each time. doc/frameworks.md lists the options. What is wrong with them raises
at the start. After that nothing does: whatever happens to the node, an object that cannot be had is a miss.
"""

import logging

from lmcache.logging import init_logger

from .adapter import KvlaneL2Adapter
from .connector import KvlaneConnector

if not logging.getLogger("kvlane").hasHandlers():  # LMCache gives each of its loggers handlers of its own
    init_logger("kvlane")

__all__ = ["KvlaneConnector", "KvlaneL2Adapter"]
