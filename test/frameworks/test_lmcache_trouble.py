# SPDX-License-Identifier: BSD-3-Clause
"""kvlane under LMCache's real adapters when its node dies, hangs, or was never there."""

import itertools
import os
import signal
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from lmcache_cpu import FORMS, adapter, connector, keys, load, loaded, looked_up, lookup, objects, spec, store, stored
from support import Kvlaned, port

N, SIZE = 4, 256 << 10
SHORT = {"exists_timeout": 0.5, "get_timeout": 0.5, "put_timeout": 0.5}


def arena_of(seed: int, parts: int = 2) -> torch.Tensor:
    """N objects of noise, and room for `parts` - 1 times as many."""
    arena = torch.zeros(parts * N * SIZE, dtype=torch.uint8)
    noise = torch.Generator().manual_seed(seed)
    arena[: N * SIZE] = torch.randint(0, 238, (N * SIZE,), generator=noise, dtype=torch.uint8)
    return arena


class Trouble(unittest.TestCase):
    def start(self, form: str, node: Kvlaned, arena: torch.Tensor, **params: Any) -> Any:
        made = adapter(spec(form, node.address, **SHORT | params), arena)
        self.addCleanup(made.close)
        return made

    def until(self, what: Any) -> None:
        """A deadline is short on a busy machine, and a node is not back at once."""
        until = time.monotonic() + 60  # a hang
        while not what():
            self.assertLess(time.monotonic(), until)

    def test_a_dead_node_costs_one_deadline_and_comes_back(self) -> None:
        for form, death in itertools.product(FORMS, (Kvlaned.kill, Kvlaned.stop)):
            with self.subTest(form=form, death=death.__name__):
                node = Kvlaned(listen=f"127.0.0.1:{port()}")
                self.addCleanup(node.kill)
                arena = arena_of(1)
                mine, back = objects(arena, N, SIZE), objects(arena, N, SIZE, N * SIZE)
                names = keys("dead", N)
                made = self.start(form, node, arena, rails="tcp")
                self.until(lambda: store(made, names, mine))
                death(node)
                self.assertEqual(load(made, names, back), [False] * N)
                self.assertEqual(lookup(made, names), [False] * N)
                with mock.patch.object(connector(made)._cache, "submit", wraps=connector(made)._cache.submit) as submit:
                    for _ in range(30):
                        self.assertEqual(lookup(made, names), [False] * N)
                        self.assertEqual(load(made, names, back), [False] * N)
                        self.assertFalse(store(made, names, mine))
                        made.delete(names)
                # nothing but the question whether it is there
                self.assertEqual({len(call.args[1]) for call in submit.call_args_list} - {1}, set())
                node.kill()
                with Kvlaned(listen=node.address):
                    self.until(lambda: store(made, names, mine))
                    self.until(lambda: load(made, names, back) == [True] * N)
                    self.assertTrue(torch.equal(arena[: N * SIZE], arena[N * SIZE :]))
                    made.close()

    def test_all_that_is_under_way_ends_when_the_node_goes(self) -> None:
        for form, number in itertools.product(FORMS, (signal.SIGKILL, signal.SIGSTOP)):
            with self.subTest(form=form, signal=number.name), Kvlaned("256M") as node:
                arena = arena_of(2)
                mine, back = objects(arena, N, SIZE), objects(arena, N, SIZE, N * SIZE)
                made = self.start(form, node, arena)
                self.until(lambda: store(made, keys("all", N), mine))
                stores, loads, lookups = [], [], []
                for i in range(30):
                    stores.append(made.submit_store_task(keys(f"way {i}", N), mine))
                    loads.append(made.submit_load_task(keys("all", N), back))
                    lookups.append(made.submit_lookup_and_lock_task(keys("all", N), {}))
                    if i == 10:
                        node.signal(number)
                self.assertFalse(stored(made, stores)[-1])
                self.assertEqual([loaded(made, task, N) for task in loads][-1], [False] * N)
                self.assertEqual([looked_up(made, task, N) for task in lookups][-1], [False] * N)
                self.assertEqual((connector(made)._pending, made._pending_ops), ({}, {}))
                node.signal(signal.SIGCONT)
                made.close()

    def test_what_has_ended_is_quiet(self) -> None:
        # LMCache takes the memory for something else once a future has ended, and the node wakes up then
        for form, rails in itertools.product(FORMS, ("tcp", "shm")):
            with self.subTest(form=form, rails=rails), Kvlaned("64M") as node:
                arena = arena_of(3, 3)
                want = arena[: N * SIZE].clone()
                mine, back, last = (objects(arena, N, SIZE, part * N * SIZE) for part in range(3))
                made = self.start(form, node, arena, rails=rails)
                self.until(lambda: store(made, keys("quiet", N), mine))
                node.stop()
                put, get = made.submit_store_task(keys("late", N), mine), made.submit_load_task(keys("quiet", N), back)
                self.assertEqual(stored(made, [put]), [False])
                self.assertEqual(loaded(made, get, N), [False] * N)
                arena[: 2 * N * SIZE] = 0xEE  # not among the bytes of noise
                node.signal(signal.SIGCONT)
                self.until(lambda: lookup(made, keys("quiet", N)) == [True] * N)
                self.assertTrue(bool((arena[N * SIZE : 2 * N * SIZE] == 0xEE).all()))
                there = lookup(made, keys("late", N))
                self.until(lambda: load(made, keys("late", N), last) == there)
                for i, ok in enumerate(there):
                    got = arena[(2 * N + i) * SIZE : (2 * N + i + 1) * SIZE]
                    self.assertTrue(not ok or torch.equal(got, want[i * SIZE : (i + 1) * SIZE]))
                made.close()

    def test_closing_does_not_wait_for_a_node_that_hangs(self) -> None:
        hours = {"exists_timeout": 7200.0, "get_timeout": 7200.0, "put_timeout": 7200.0}
        for form in FORMS:
            with self.subTest(form), Kvlaned() as node:
                arena = arena_of(6)
                made = self.start(form, node, arena, **hours)
                self.assertTrue(store(made, keys("close", N), objects(arena, N, SIZE)))
                node.stop()
                made.submit_store_task(keys("way", N), objects(arena, N, SIZE))
                made.submit_load_task(keys("close", N), objects(arena, N, SIZE, N * SIZE))
                made.submit_lookup_and_lock_task(keys("close", N), {})
                until = time.monotonic() + 60
                made.close()
                self.assertLess(time.monotonic(), until)
                self.assertFalse(made._demux_thread.is_alive())

    def test_lmcache_starts_without_its_node(self) -> None:
        node = Kvlaned(listen=f"127.0.0.1:{port()}")
        node.kill()
        arena = arena_of(4)
        for form in FORMS:
            made = self.start(form, node, arena, connect_timeout=0.2)
            self.assertEqual(lookup(made, keys("without", N)), [False] * N)
            self.assertFalse(store(made, keys("without", N), objects(arena, N, SIZE)))
            with Kvlaned(listen=node.address):
                self.until(lambda: store(made, keys("without", N), objects(arena, N, SIZE)))
                made.close()


class Long(unittest.TestCase):
    def test_nothing_grows_under_mixed_traffic(self) -> None:
        until = time.monotonic() + float(os.environ.get("KVL_MIXED_SECONDS", 0))  # a longer run, by hand
        with Kvlaned("64M") as node:
            arena = arena_of(5)
            both = [adapter(spec(form, node.address), arena) for form in FORMS]
            mine, back = objects(arena, N, SIZE), objects(arena, N, SIZE, N * SIZE)

            def rounds(count: int) -> None:
                for i in range(count):
                    for made in both:
                        names = keys(f"mixed {i}", N)
                        self.assertTrue(store(made, names, mine))
                        arena[N * SIZE :] = 0
                        self.assertEqual(lookup(made, names + keys("none", 1)), [True] * N + [False])
                        self.assertEqual(load(made, names, back), [True] * N)
                        self.assertTrue(torch.equal(arena[: N * SIZE], arena[N * SIZE :]))
                        made.delete(names)

            def sizes() -> tuple[int, int, int]:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                registered = sum(rail.registrations for rail in connector(both[1])._cache.rails())
                return len(os.listdir("/proc/self/fd")), registered, pages * 4096

            rounds(50)
            before = sizes()
            rounds(50)
            while time.monotonic() < until:
                rounds(50)
            after = sizes()
            for made in both:
                self.assertEqual((connector(made)._pending, connector(made)._ended), ({}, []))
                made.close()
        self.assertEqual(after[:2], before[:2])
        self.assertLess(after[2], before[2] + (8 << 20))


if __name__ == "__main__":
    unittest.main()
