# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of KvlaneHiCache share: a node, and backends that are closed in the end."""

from typing import Any

from sglang_cpu import config
from support import NodeStage

from kvlane_hicache import KvlaneHiCache


class Stage(NodeStage):
    memory = "256M"

    def backend(self, pool: Any = None, **changes: Any) -> KvlaneHiCache:
        backend = KvlaneHiCache(config(self.node.address, **changes), {})
        self.addCleanup(backend.close)
        if pool is not None:
            backend.register_mem_pool_host(pool)
        return backend
