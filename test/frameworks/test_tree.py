# SPDX-License-Identifier: BSD-3-Clause
"""One engine writes, another one in another process reads: SGLang's radix cache and all below it."""

import subprocess
import sys
import unittest

import sglang_cpu as cpu
import sglang_tree
import torch
from support import Kvlaned


class Tree(unittest.TestCase):
    def test_what_an_engine_wrote_through_another_one_loads(self) -> None:
        with Kvlaned("256M") as node:
            for kind, writes, reads in (("mha", "layer_first", "page_first"), ("mla", "page_first", "layer_first")):
                with self.subTest(kind=kind, writes=writes, reads=reads), cpu.parallel():
                    writer = [sys.executable, sglang_tree.__file__, node.address, kind, writes]
                    subprocess.run(writer, check=True, timeout=200)
                    engine = sglang_tree.Engine(node.address, kind, reads)
                    try:
                        mine = engine.compute(seed=7)
                        want = engine.bytes_at(mine)
                        got = engine.read_back()
                        self.assertEqual(len(got), sglang_tree.TOKENS)
                        self.assertEqual(set(got.tolist()) & set(mine.tolist()), set())
                        for one, other in zip(engine.bytes_at(got), want, strict=True):
                            self.assertTrue(torch.equal(one, other))
                        funnel = engine.backend.stats.funnel["kv"]
                        self.assertEqual((funnel["hit"], funnel["get_ok"]), (sglang_tree.PAGES, sglang_tree.PAGES))
                    finally:
                        engine.close()


if __name__ == "__main__":
    unittest.main()
