# SPDX-License-Identifier: BSD-3-Clause
"""KvlaneHiCache under SGLang's real controllers: its factory, its threads, its acks; and with a node that dies."""

import os
import time
import unittest
from typing import Any
from unittest import mock

import sglang_cpu as cpu
import torch
from sglang_cpu import PAGE, Controller, config, fill, host_pool, logical
from stage import Stage
from support import Kvlaned, port

from kvlane_hicache import KvlaneHiCache
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
from sglang.srt.mem_cache.utils import get_hash_str


class Trouble(unittest.TestCase):
    def test_a_dead_node_costs_one_deadline_and_comes_back(self) -> None:
        pool = host_pool("mha", "page_first")
        at = pool.alloc(4 * PAGE)
        keys = list("abcd")
        for death in (Kvlaned.kill, Kvlaned.stop):
            with self.subTest(death.__name__):
                node = Kvlaned(listen=f"127.0.0.1:{port()}")
                self.addCleanup(node.kill)
                short = {"exists_timeout": 0.5, "get_timeout": 0.5, "put_timeout": 0.5, "rails": "tcp"}
                backend = KvlaneHiCache(config(node.address, extra=short), {})
                self.addCleanup(backend.close)
                backend.register_mem_pool_host(pool)
                while not all(backend.batch_set_v1(keys, at)):  # a deadline is short on a busy machine
                    pass
                death(node)
                self.assertEqual(backend.batch_get_v1(keys, at), [False] * 4)
                self.assertEqual(backend.batch_exists(keys), 0)
                sent = mock.patch.object(backend._cache, "submit_columns", wraps=backend._cache.submit_columns)
                with sent as submit:
                    for _ in range(100):
                        self.assertEqual(backend.batch_exists(keys), 0)
                        self.assertEqual(backend.batch_get_v1(keys, at), [False] * 4)
                        self.assertEqual(backend.batch_set_v1(keys, at), [False] * 4)
                # nothing but the question whether it is there
                self.assertEqual({len(call.args[1].keys) for call in submit.call_args_list} - {1}, set())
                node.kill()
                with Kvlaned(listen=node.address):
                    until = time.monotonic() + 60
                    while not all(backend.batch_set_v1(keys, at)):
                        self.assertLess(time.monotonic(), until)
                    while not all(backend.batch_get_v1(keys, at)):
                        self.assertLess(time.monotonic(), until)
                backend.close()

    def test_an_engine_starts_without_its_node(self) -> None:
        node = Kvlaned()
        node.kill()
        backend = KvlaneHiCache(config(node.address, extra={"connect_timeout": 0.2}), {})
        self.addCleanup(backend.close)
        pool = host_pool("mha", "page_first")
        backend.register_mem_pool_host(pool)
        self.assertEqual(backend.batch_exists(["a"]), 0)


class Engine(Stage):
    """The real controller: its factory, its threads, its acks."""

    def through(self, kind: str, layout: str, **how: Any) -> None:
        ids = list(range(300 * PAGE))
        hashes = get_hash_str(ids, None, page_size=PAGE)
        controller = Controller(self.node.address, kind, layout, **how)
        try:
            self.assertIs(type(controller.backend), KvlaneHiCache)
            fill(controller.pool, 1)
            source = controller.real.mem_pool_host.alloc(len(ids))
            want = logical(kind, controller.pool, source)
            self.assertEqual(controller.write(ids, hashes, source), len(ids))
            controller.real.mem_pool_host.free(source)
            fill(controller.pool, 2)
            found, came, where = controller.read(ids + [5] * PAGE, "r")
            self.assertEqual((found, came), (len(ids), len(ids)))
            self.assertTrue(torch.equal(logical(kind, controller.pool, where), want))
        finally:
            controller.close()

    def test_300_pages_through_the_controller(self) -> None:
        for kind, layout, how in (
            ("mha", "layer_first", {}),
            ("mha", "page_first", {"interface_v1": 0}),
            ("mha", "page_first_direct", {"hybrid": False}),
            ("mha", "page_head", {}),
            ("mla", "layer_first", {}),
            ("mla", "page_first", {}),
        ):
            with self.subTest(kind=kind, layout=layout, **how):
                self.through(kind, layout, **how)

    def test_a_node_that_dies_in_the_middle_is_counted_right_and_comes_back(self) -> None:
        node = Kvlaned("256M", listen=f"127.0.0.1:{port()}")
        self.addCleanup(lambda: node.kill())
        controller = Controller(node.address, "mha", "layer_first", rails="tcp")
        self.addCleanup(controller.close)
        ids = list(range(300 * PAGE))
        hashes = get_hash_str(ids, None, page_size=PAGE)
        source = controller.real.mem_pool_host.alloc(len(ids))
        fill(controller.pool, 1)
        want = logical("mha", controller.pool, source)

        def dies_before(name: str, call: int) -> Any:
            real, calls = getattr(controller.backend, name), iter(range(1, 1000))

            def method(*arguments: Any) -> Any:
                if next(calls) == call:
                    node.kill()
                return real(*arguments)

            return mock.patch.object(controller.backend, name, method)

        with dies_before("batch_set_v1", 2):
            self.assertEqual(controller.write(ids, hashes, source), 128 * PAGE)
        self.assertEqual(controller.read(ids, "dead")[0], 0)
        node = Kvlaned("256M", listen=node.address)
        until = time.monotonic() + 60
        while controller.write(ids, hashes, source) != len(ids):
            self.assertLess(time.monotonic(), until)
        controller.real.mem_pool_host.free(source)
        fill(controller.pool, 2)
        with dies_before("batch_get_v1", 3):
            found, came, where = controller.read(ids, "dies")
        self.assertEqual((found, came), (len(ids), 256 * PAGE))
        self.assertTrue(torch.equal(logical("mha", controller.pool, where[:came]), want[:, :came]))

    def test_sglangs_own_injector_around_us_breaks_nothing(self) -> None:
        env = {"SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE": "0.2", "SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY": "0.01"}
        with mock.patch.dict(os.environ, env):
            controller = Controller(self.node.address, "mha", "layer_first", depth=4)
        self.addCleanup(controller.close)
        self.assertNotIsInstance(controller.backend, KvlaneHiCache)
        until = time.monotonic() + float(os.environ.get("KVL_INJECT_SECONDS", 0))  # a longer run, by hand
        rounds = 0
        while rounds < 12 or time.monotonic() < until:
            rounds += 1
            ids = [rounds * 1000003 + i for i in range(140 * PAGE)]
            hashes = get_hash_str(ids, None, page_size=PAGE)
            source = controller.real.mem_pool_host.alloc(len(ids))
            fill(controller.pool, rounds)
            want = logical("mha", controller.pool, source)
            controller.write(ids, hashes, source)
            controller.real.mem_pool_host.free(source)
            fill(controller.pool, rounds + 1)
            found, came, where = controller.read(ids, f"r{rounds}")
            if where is None:
                continue
            self.assertTrue(torch.equal(logical("mha", controller.pool, where[:came]), want[:, :came]))
            controller.real.mem_pool_host.free(where)
        threads = ("prefetch_thread", "prefetch_io_aux_thread", "prefetch_sync_thread", "backup_thread")
        self.assertEqual([name for name in threads if not getattr(controller.real, name).is_alive()], [])

    def test_the_factory_says_what_is_wrong(self) -> None:
        extra = cpu.EXTRA | {"colour": 1}
        with self.assertRaisesRegex(ValueError, "unknown option colour"):
            StorageBackendFactory.create_backend("dynamic", config(self.node.address, extra=extra), None)

    def test_attach_again_in_the_same_process(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            backend = StorageBackendFactory.create_backend("dynamic", config(self.node.address, extra=cpu.EXTRA), None)
            backend.register_mem_pool_host(host_pool("mha", "page_first"))
            backend.close()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before + 2)


if __name__ == "__main__":
    unittest.main()
