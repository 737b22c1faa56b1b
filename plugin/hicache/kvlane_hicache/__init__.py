# SPDX-License-Identifier: BSD-3-Clause
"""SGLang HiCache over kvlane.

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{"backend_name": "kvlane",
      "module_path": "kvlane_hicache", "class_name": "KvlaneHiCache", "interface_v1": 1,
      "node": "10.0.0.7:7700"}'

doc/frameworks.md lists the options. What is wrong with them raises at the start. After that nothing does:
whatever happens to the node, a page that cannot be had is a miss.
"""

from .connector import KvlaneHiCache

__all__ = ["KvlaneHiCache"]
