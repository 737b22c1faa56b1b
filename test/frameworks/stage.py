# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of KvlaneHiCache share: a node, and backends that are closed in the end."""

import unittest
from typing import Any

from sglang_cpu import config
from support import Kvlaned

from kvlane_hicache import KvlaneHiCache


class Stage(unittest.TestCase):
    node: Kvlaned

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = Kvlaned("256M")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.node.kill()

    def backend(self, pool: Any = None, **changes: Any) -> KvlaneHiCache:
        backend = KvlaneHiCache(config(self.node.address, **changes), {})
        self.addCleanup(backend.close)
        if pool is not None:
            backend.register_mem_pool_host(pool)
        return backend
