# SPDX-License-Identifier: BSD-3-Clause
"""kvlane under LMCache's real StorageManager, its fault injector, its benchmark and its own check."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any

import lmcache_cpu as cpu
import torch
from lmcache.v1.distributed.api import GroupedObjectKeys, MemoryLayoutDesc, PrefetchTaskSpec
from lmcache.v1.distributed.config import parse_args
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache_cpu import FORMS, spec
from support import PACKAGE, Kvlaned, port

N = 24
SHAPE = torch.Size([2, 4, 256, 64])
LAYOUT = MemoryLayoutDesc([SHAPE], [torch.bfloat16])


class Manager:
    """LMCache's: L1 in DRAM, controllers that store and prefetch; and ours behind it."""

    def __init__(self, adapter: dict[str, Any]) -> None:
        how = "--l1-size-gb 0.125 --eviction-policy LRU --no-l1-use-lazy --l2-adapter".split()
        self.real = StorageManager(parse_args([*how, json.dumps(adapter)]))
        (self.adapter,) = self.real._l2_adapters.values()

    def write(self, keys: list[Any], seed: int) -> dict[Any, torch.Tensor]:
        noise = torch.Generator().manual_seed(seed)
        want = {}
        for key, made in self.real.reserve_write(keys, LAYOUT).items():
            want[key] = torch.randn(SHAPE, generator=noise).to(torch.bfloat16)
            made.tensor.copy_(want[key])
        self.real.finish_write(keys)
        return want

    def drop(self, keys: list[Any]) -> None:
        """From L1, once LMCache has stored them (or could not)."""
        left, until = len(keys), time.monotonic() + 60
        while left:
            left -= self.real.delete_l1_keys(keys)[0]
            assert time.monotonic() < until, "still in use"

    def prefetch(self, keys: list[Any]) -> int:
        """How many there are then, from the first on."""
        group = GroupedObjectKeys(keys=keys, object_group_id=0, layout_desc=LAYOUT)
        handle = self.real.submit_prefetch_task(PrefetchTaskSpec([group]))
        assert self.real.wait_prefetch_status(handle, 60), "a prefetch that never ends"
        return int(self.real.query_prefetch_status(handle).l2_hit_count)

    def read(self, keys: list[Any]) -> list[torch.Tensor]:
        with self.real.read_prefetched_results(keys) as got:
            values = [one.tensor.clone() for one in got or []]
        self.real.finish_read_prefetched(keys)
        return values


class Server(unittest.TestCase):
    def stored(self, manager: Manager) -> int:
        return int(cpu.connector(manager.adapter).status()["funnel"].get("put_pages", 0))

    def until_stored(self, manager: Manager, count: int) -> None:
        until = time.monotonic() + 60
        while self.stored(manager) < count:
            self.assertLess(time.monotonic(), until)

    def test_all_objects_come_back_through_the_storage_manager(self) -> None:
        for form in FORMS:
            with self.subTest(form), Kvlaned("256M") as node:
                manager = Manager(spec(form, node.address, depth=4, sg_endpoints=4))
                try:
                    names = cpu.keys("manager", N)
                    want = manager.write(names, 1)
                    self.until_stored(manager, N)
                    manager.drop(names)
                    self.assertEqual(manager.prefetch(names), N)
                    for name, got in zip(names, manager.read(names), strict=True):
                        self.assertTrue(torch.equal(got, want[name]))
                    status = cpu.connector(manager.adapter).status()
                    self.assertEqual(status["l1_registered_bytes"], (128 << 20) * (form == "plugin"))
                    self.assertEqual(cpu.connector(manager.adapter).session().depth, 4)
                finally:
                    manager.real.close()

    def test_a_node_that_goes_is_a_miss_and_then_serves_again(self) -> None:
        for form, death in (("plugin", Kvlaned.kill), ("native_plugin", Kvlaned.stop)):
            with self.subTest(form=form, death=death.__name__):
                node = Kvlaned("256M", listen=f"127.0.0.1:{port()}")
                self.addCleanup(node.kill)
                short = {"exists_timeout": 0.5, "get_timeout": 0.5, "put_timeout": 0.5}
                manager = Manager(spec(form, node.address, rails="tcp", **short))
                try:
                    names = cpu.keys("goes", N)
                    manager.write(names, 2)
                    self.until_stored(manager, N)
                    manager.drop(names)
                    death(node)
                    self.assertEqual(manager.prefetch(names), 0)
                    node.kill()
                    with Kvlaned("256M", listen=node.address):
                        found, until = 0, time.monotonic() + 60
                        for i in range(1000):
                            again = cpu.keys(f"again {i}", N)
                            want = manager.write(again, i)
                            manager.drop(again)
                            found = manager.prefetch(again)
                            if found == N:
                                break
                            self.assertLess(time.monotonic(), until)
                        for name, got in zip(again, manager.read(again), strict=True):
                            self.assertTrue(torch.equal(got, want[name]))
                finally:
                    manager.real.close()

    def test_lmcaches_own_injector_around_us_loses_what_it_drops_and_no_byte_more(self) -> None:
        size, count = 64 << 10, 64
        with Kvlaned("64M") as node:
            for form in FORMS:
                with self.subTest(form):
                    arena = torch.randint(0, 256, (2 * count * size,), dtype=torch.uint8)
                    arena[count * size :] = 0
                    mine, back = (cpu.objects(arena, count, size, part * count * size) for part in range(2))
                    names = cpu.keys(f"inject {form}", count)
                    injected = {"type": "fault_inject", "rate": 0.3, "seed": 7, "inner": spec(form, node.address)}
                    made = cpu.adapter(injected, arena)
                    self.addCleanup(made.close)
                    self.assertTrue(cpu.store(made, names, mine))
                    self.assertEqual(cpu.lookup(made, names), [True] * count)
                    flags = cpu.load(made, names, back)
                    self.assertTrue(0 < sum(flags) < count)
                    for i, ok in enumerate(flags):
                        same = torch.equal(mine[i].raw_data, back[i].raw_data)
                        self.assertTrue(same or not ok)
                    self.assertEqual(cpu.load(made, names, back), flags)


class Tools(unittest.TestCase):
    """As a user runs them."""

    def lmcache(self, *arguments: str) -> str:
        folders = os.pathsep.join([str(PACKAGE), str(Path(PACKAGE).parent / "lmcache")])
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_its_benchmark_verifies_every_byte(self) -> None:
        how = "--num-keys 32 --in-flight 4 --data-size-kb 512 --rounds 3 --no-skip-verify --lookup-max-hit-rate 1.0"
        with Kvlaned("512M") as node:
            for form in FORMS:
                with self.subTest(form):
                    with_us = ["--l2-adapter", json.dumps(spec(form, node.address))]
                    said = self.lmcache("-m", "lmcache.cli.main", "bench", "l2", *how.split(), *with_us)
                    self.assertIn("All 128 keys data verified OK", said)
                    self.assertEqual(re.findall(r"Actual hit rate: +([\d.]+)", said), ["1.00"])

    def test_its_own_check_passes(self) -> None:
        how = "--mode test_l2_adapter --num-keys 64 --obj-size 262144 --l2-adapter"
        with Kvlaned("64M") as node:
            said = self.lmcache("-m", "lmcache.v1.basic_check", *how.split(), json.dumps(spec("plugin", node.address)))
        # it exits with 0 whatever it found
        for line in ("64/64 correctly absent", "Batch store OK", "64/64 found", "(content): 64/64"):
            self.assertIn(line, said)


if __name__ == "__main__":
    unittest.main()
