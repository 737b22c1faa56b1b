# SPDX-License-Identifier: BSD-3-Clause
"""kvlane under LMCache's real adapters: both forms, what moves, what it is called, and what is refused."""

import dataclasses
import json
import mmap
import os
import re
import tempfile
import threading
import time
import unittest
from typing import Any
from unittest import mock

import lmcache_cpu as cpu
import torch
from lmcache_cpu import FORMS, adapter, connector, keys, load, lookup, objects, spec, store
from support import SRC, Kvlaned, NodeStage

import kvlane
import kvlane_lmcache
from kvlane.connector import Options
from kvlane_lmcache.adapter import AdapterOptions
from kvlane_lmcache.connector import name_of

SIZE = 256 << 10


def filled(count: int, size: int = SIZE) -> torch.Tensor:
    """An arena with `count` objects of noise, and room for as many."""
    arena = torch.zeros(2 * count * size, dtype=torch.uint8)
    arena[: count * size] = torch.randint(0, 256, (count * size,), dtype=torch.uint8)
    return arena


class Stage(NodeStage):
    memory = "256M"

    def adapter(self, form: str, arena: torch.Tensor | None = None, **params: Any) -> Any:
        made = adapter(spec(form, self.node.address, **params), arena)
        self.addCleanup(made.close)
        return made

    def registrations(self, of: Any) -> int:
        return sum(rail.registrations for rail in connector(of)._cache.rails())


class Moves(Stage):
    def test_objects_come_back_byte_for_byte(self) -> None:
        n = 24
        for form in FORMS:
            for rails in ("tcp", "shm"):
                for size in (1000, SIZE + 8):  # by copy in a message, and by the lanes
                    with self.subTest(form=form, rails=rails, size=size):
                        arena = filled(n, size)
                        mine, back = objects(arena, n, size), objects(arena, n, size, n * size)
                        names = keys(f"{form} {rails} {size}", n)
                        made = self.adapter(form, arena, rails=rails)
                        self.assertEqual(lookup(made, names), [False] * n)
                        self.assertEqual(load(made, names, back), [False] * n)
                        self.assertTrue(store(made, names, mine))
                        self.assertEqual(lookup(made, names), [True] * n)
                        self.assertEqual(load(made, names[::-1], back[::-1]), [True] * n)
                        self.assertTrue(torch.equal(arena[: n * size], arena[n * size :]))
                        made.delete(names[::2])
                        self.assertEqual(lookup(made, names), [False, True] * (n // 2))
                        self.assertEqual(load(made, names, back), [False, True] * (n // 2))
                        self.assertEqual(made.get_usage().total_bytes_used, n // 2 * size)

    def test_either_form_finds_what_the_other_stored_wherever_it_runs(self) -> None:
        arena = filled(4)
        mine, back = objects(arena, 4, SIZE), objects(arena, 4, SIZE, 4 * SIZE)
        ways: list[dict[str, Any]] = [{"depth": 3, "sg_endpoints": 2, "rails": "tcp"}, {"affinity": "rank", "rank": 1}]
        for form, other, way in (("plugin", "native_plugin", ways[0]), ("native_plugin", "plugin", ways[1])):
            names = keys(f"from {form}", 4, cache_salt="salt")
            self.assertTrue(store(self.adapter(form, arena, **way), names, mine))
            reader = self.adapter(other, arena)
            self.assertEqual(lookup(reader, names), [True] * 4)
            self.assertEqual(load(reader, names, back), [True] * 4)
            self.assertTrue(torch.equal(arena[: 4 * SIZE], arena[4 * SIZE :]))
            others = [{"cache_salt": "other"}, {"object_group_id": 1}, {"kv_rank": 0}, {"model_name": "another"}]
            for changes in others:
                other_names = keys(f"from {form}", 4, **{"cache_salt": "salt"} | changes)
                self.assertEqual(lookup(reader, other_names), [False] * 4)

    def test_a_name_too_long_for_a_node_is_still_its_own(self) -> None:
        made = self.adapter("plugin")
        arena = filled(2)
        one, other = (keys("", 1, model_name="m" * 200, cache_salt=salt * 128) for salt in "ab")
        self.assertTrue(store(made, one, objects(arena, 1, SIZE)))
        self.assertEqual([lookup(made, one), lookup(made, other)], [[True], [False]])
        self.assertEqual(name_of("model@1@0@ff"), b"lmcache/model@1@0@ff")
        # the longest that goes as it is, and the next
        self.assertEqual([len(name_of("k" * 247)), len(name_of("k" * 248))], [255, 8 + 64])

    def test_the_arena_is_registered_once_and_what_lies_elsewhere_each_time(self) -> None:
        n = 8
        arena, elsewhere = filled(n), filled(n)
        names = keys("arena", n)
        made = self.adapter("plugin", arena)
        before = self.registrations(made)
        self.assertGreater(before, 0)
        for _ in range(10):
            self.assertTrue(store(made, names, objects(arena, n, SIZE)))
            self.assertEqual(load(made, names, objects(arena, n, SIZE, n * SIZE)), [True] * n)
        self.assertEqual(self.registrations(made), before)
        self.assertEqual(made.report_status()["kvlane"]["l1_registered_bytes"], arena.numel())
        # as with a serializer's buffers
        self.assertEqual(load(made, names, objects(elsewhere, n, SIZE)), [True] * n)
        self.assertTrue(torch.equal(elsewhere[: n * SIZE], arena[: n * SIZE]))
        self.assertEqual(self.registrations(made) % before, 0)
        self.assertGreater(self.registrations(made), before)
        # partly inside
        for address in (arena.data_ptr() - 8, arena.data_ptr() + arena.numel() - 8):
            over = cpu.view_at(address, 16)
            self.assertIs(connector(made)._place(over, kvlane.Op.PUT), over)

    def test_what_does_not_fit_fails_alone_and_leaves_no_key(self) -> None:
        with Kvlaned("8M") as node:
            for form in FORMS:
                with self.subTest(form):
                    made = adapter(spec(form, node.address))
                    self.addCleanup(made.close)
                    size = 1 << 20
                    arena = torch.ones(12 * size, dtype=torch.uint8)
                    names = keys(f"full {form}", 3)
                    values = [*objects(arena, 2, size), *objects(arena, 1, 9 * size, 2 * size)]
                    self.assertFalse(store(made, names, values))
                    self.assertEqual(lookup(made, names), [True, True, False])
                    self.assertEqual(load(made, names, values), [True, True, False])

    def test_an_object_that_cannot_be_read_is_not_promised_again(self) -> None:
        made = self.adapter("native_plugin", negative_ttl=7200.0)
        arena, names = filled(2), keys("negative", 2)
        values = objects(arena, 2, SIZE)
        self.assertTrue(store(made, names, values))
        damaged = name_of(f"toy/negative@02010201@0@{1:064x}")
        connector(made)._cache.put({damaged: b"short"}, timeout=10)
        self.assertEqual(lookup(made, names), [True, True])
        self.assertEqual(load(made, names, values), [True, False])
        self.assertEqual(lookup(made, names), [True, False])
        self.assertEqual(lookup(made, names[1:]), [False])
        later = time.monotonic() + 7201
        with mock.patch("kvlane.connector.health.time", monotonic=lambda: later):
            self.assertEqual(lookup(made, names), [True, True])
        self.assertTrue(store(made, names[1:], values[1:]))  # makes up for it
        self.assertEqual(lookup(made, names), [True, True])

    def test_counts_tell_the_funnel(self) -> None:
        made = self.adapter("plugin")
        arena, names = filled(2), keys("funnel", 3)
        store(made, names[:2], objects(arena, 2, SIZE))
        lookup(made, names)
        load(made, names, objects(arena, 3, SIZE))
        status = made.report_status()
        want = dict(queried=3, hit=2, get_pages=3, get_ok=2, get_bytes=2 * SIZE)
        want |= dict(put_pages=2, put_ok=2, put_bytes=2 * SIZE)
        self.assertEqual(status["kvlane"]["funnel"], want)
        self.assertEqual((status["type"], status["is_healthy"], status["kvlane"]["answers"]), ("kvlane", True, True))


class Contract(Stage):
    def drained(self, of: kvlane_lmcache.KvlaneConnector, future: int) -> tuple[bool, str, list[bool] | None]:
        """As LMCache does: waits at the event fd, then drains."""
        cpu.readable(of.event_fd())
        done = of.drain_completions()
        self.assertEqual([number for number, *_ in done], [future])
        return done[0][1:]

    def test_the_event_fd_is_the_engines_and_there_is_no_thread(self) -> None:
        before = threading.enumerate()
        made = kvlane_lmcache.KvlaneConnector(node=self.node.address)
        self.addCleanup(made.close)
        self.assertEqual(threading.enumerate(), before)
        self.assertEqual(made.event_fd(), made._client.engine.event_fd())

    def test_whatever_is_submitted_ends_and_nothing_raises(self) -> None:
        made = kvlane_lmcache.KvlaneConnector(node=self.node.address)
        value: Any = memoryview(bytearray(100))
        for submit, arguments, want in (
            (made.submit_batch_exists, ([],), (True, "", [])),
            (made.submit_batch_get, ([], []), (True, "", [])),
            (made.submit_batch_set, ([], []), (True, "", None)),
            (made.submit_batch_delete, (["never there"],), (True, "", [True])),
            (made.submit_batch_exists, (["a"],), (True, "", [False])),
            (made.submit_batch_set, (["a", "b"], [value]), (False, "zip", None)),
            (made.submit_batch_get, (["a"], [value, value]), (False, "zip", [False])),
            (made.submit_batch_get, (["a"], [memoryview(bytes(5))]), (False, "not writable", [False])),
            (made.submit_batch_set, (["a"], [value[:0]]), (False, "no bytes", None)),
            (made.submit_batch_set, (["a"], ["text"]), (False, "nbytes", None)),
            (made.submit_batch_exists, ([b"a"],), (False, "encode", [False])),
            (made.submit_batch_exists, (["k"] * 65537,), (False, "65537", [False] * 65537)),
            (made.submit_batch_exists, (["a"],), (True, "", [False])),
            (made.submit_batch_set, (["a"], [value]), (True, "", None)),
            (made.submit_batch_delete, (["a", "b"],), (True, "", [True, True])),
            (made.submit_batch_exists, (["a"],), (True, "", [False])),
        ):
            with self.subTest(submit=submit.__name__, arguments=str(arguments)[:60]):
                ok, why, flags = self.drained(made, submit(*arguments))
                self.assertEqual((ok, flags), (want[0], want[2]))
                self.assertRegex(why, want[1] or "^$")
        self.assertEqual(made.drain_completions(), [])
        made.close()
        self.assertGreater(made.submit_batch_exists(["a"]), 0)
        self.assertEqual(made.drain_completions(), [])
        made.close()

    def test_a_failure_without_a_text_is_one(self) -> None:
        made = kvlane_lmcache.KvlaneConnector(node=self.node.address)
        self.addCleanup(made.close)
        value = memoryview(bytearray(100))
        with mock.patch.object(made._cache, "submit", side_effect=MemoryError()):
            future = made.submit_batch_set(["no text"], [value])
        self.assertEqual(self.drained(made, future), (False, "MemoryError: ", None))
        future = made.submit_batch_set(["no text"], [value])
        cpu.readable(made.event_fd())
        with mock.patch.object(kvlane.Batch, "statuses", new_callable=mock.PropertyMock, side_effect=MemoryError()):
            self.assertEqual(made.drain_completions(), [(future, False, "MemoryError: ", None)])

    def test_a_batch_that_ends_before_it_is_noted_is_not_lost(self) -> None:
        made = kvlane_lmcache.KvlaneConnector(node=self.node.address)
        self.addCleanup(made.close)
        real = made._cache.submit

        def late(*arguments: Any) -> Any:
            batch = real(*arguments)
            batch.wait()
            cpu.readable(made.event_fd())
            self.assertEqual(made.drain_completions(), [])  # the other thread takes the event
            return batch

        with mock.patch.object(made._cache, "submit", late):
            future = made.submit_batch_exists(["a"])
        self.assertEqual(self.drained(made, future), (True, "", [False]))

    def test_a_deadline_is_for_a_gib_under_way(self) -> None:
        timeouts = {"get_timeout": 2.0, "put_timeout": 7.0, "exists_timeout": 0.5}
        made = kvlane_lmcache.KvlaneConnector(node=self.node.address, **timeouts)
        self.addCleanup(made.close)
        asked: list[float] = []

        def submit(op: Any, items: Any, timeout: float) -> Any:
            asked.append(timeout)
            raise kvlane.errors.Busy("not here")

        replaced = mock.patch.object(made._cache, "submit", submit)
        with replaced, mmap.mmap(-1, 3 << 30) as memory, memoryview(memory) as large:
            small = large[:10]
            made.submit_batch_get(["a"], [small])
            made.submit_batch_set(["a"], [small])
            made.submit_batch_get(["a", "b"], [large, large])
            made.submit_batch_set(["a"], [large])
            made.submit_batch_exists(["a"])
            made.submit_batch_delete(["a"])
            made._pending[0] = mock.Mock(total=2 << 30)
            made.submit_batch_get(["a", "b"], [large, large])
            made._pending.clear()
            small.release()
        self.assertEqual(asked, [2.0, 7.0, 12.0, 21.0, 0.5, 0.5, 16.0])

    def test_attach_and_detach_leave_nothing_behind(self) -> None:
        arena = filled(4)
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        for form in (*FORMS, *FORMS):
            made = adapter(spec(form, self.node.address), arena)
            self.assertTrue(store(made, keys("attach", 4), objects(arena, 4, SIZE)))
            made.close()
        self.assertEqual((len(os.listdir("/proc/self/fd")), threading.active_count()), before)


class Configuration(Stage):
    def test_unknown_names_and_wrong_values_are_refused(self) -> None:
        for form in FORMS:
            for params, text in (
                ({"dpeth": 4}, "unknown option dpeth; known: node, depth, sg_endpoints"),
                ({"depth": "4"}, "option depth is '4'; wanted: int"),
                ({"get_timeout": 0}, "get_timeout is 0"),
                ({"affinity": "near"}, "accepted: rank, numa, off"),
                ({"affinity": "rank"}, "nobody says which rank"),
                ({"rank": 1}, '"affinity": "rank" alone'),
                ({"settings": {"KVLANE_DEPHT": 1}}, "KVLANE_DEPHT"),
                ({"settings": {"KVLANE_PROGRESS": "caller"}}, "KVLANE_PROGRESS is caller"),
            ):
                with self.subTest(form=form, params=params), self.assertRaisesRegex(ValueError, text):
                    adapter(spec(form, self.node.address, **params))
        for form in FORMS:
            with self.assertRaisesRegex(ValueError, "node is wanted"):
                adapter(spec(form, ""))
        with self.assertRaisesRegex(ValueError, "unknown option max_capacity_gb"):
            adapter(spec("native_plugin", self.node.address, max_capacity_gb=1))
        with self.assertRaisesRegex(ValueError, "max_capacity_gb is -1"):
            adapter(spec("plugin", self.node.address, max_capacity_gb=-1))

    def test_the_environment_is_neither_written_nor_in_the_way(self) -> None:
        with mock.patch.dict(os.environ, {"KVLANE_PROGRESS": "caller", "KVLANE_DEPTH": "5"}):
            before = dict(os.environ)
            params: dict[str, Any] = {"settings": {"KVLANE_RAILS": "tcp"}}
            made = [self.adapter(form, depth=depth, **params) for form, depth in zip(FORMS, (2, 3))]
            made.append(self.adapter("plugin"))
            self.assertEqual(dict(os.environ), before)
        self.assertEqual([connector(one).session().depth for one in made], [2, 3, 5])
        self.assertEqual([connector(one).session().transport for one in made[:2]], ["tcp", "tcp"])
        self.assertEqual(params, {"settings": {"KVLANE_RAILS": "tcp"}})
        arena = filled(1)
        self.assertTrue(store(made[0], keys("env", 1), objects(arena, 1, SIZE)))

    def test_the_smaller_depth_of_both_sides_is_in_force_on_both(self) -> None:
        settings = dict(KVLANE_DEPTH="6", KVLANE_SG_ENDPOINTS="5", KVLANE_LOG_LEVEL="info")
        with tempfile.TemporaryFile("w+") as log, Kvlaned(log=log, **settings) as node:
            want = []
            for form in FORMS:
                for mine, in_force in ((1, (1, 1)), (4, (4, 4)), (16, (6, 5))):
                    made = adapter(spec(form, node.address, depth=mine, sg_endpoints=mine))
                    session = connector(made).session()
                    self.assertEqual((session.depth, session.sg_endpoints), in_force)
                    made.close()
                    want.append(in_force)
            log.seek(0)
            said = re.findall(r"depth (\d+), (\d+) sg endpoints", log.read())
            self.assertEqual([tuple(map(int, words)) for words in said], want)

    def test_an_arena_that_cannot_be_registered_is_said_at_the_start(self) -> None:
        before = len(os.listdir("/proc/self/fd"))
        small = {"settings": {"KVLANE_PIN_MAX": "1M", "KVLANE_TIMEOUT": "100ms"}}
        with self.assertRaisesRegex(kvlane.Error, "KVLANE_PIN_MAX"):
            adapter(spec("plugin", self.node.address, **small), filled(8))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_capacity_is_lmcaches_to_count(self) -> None:
        arena = filled(2)
        counted = [self.adapter("plugin", arena, max_capacity_gb=0.5)]
        counted.append(adapter(spec("native_plugin", self.node.address) | {"max_capacity_gb": 0.5}))
        self.addCleanup(counted[1].close)
        for made in counted:
            self.assertTrue(store(made, keys("capacity", 2), objects(arena, 2, SIZE)))
            usage = made.get_usage()
            self.assertEqual((usage.total_bytes_used, usage.total_capacity_bytes), (2 * SIZE, 1 << 29))
            self.assertTrue(made.supports_global_eviction)
        self.assertFalse(self.adapter("plugin").supports_global_eviction)

    def test_the_page_for_users_shows_what_works_as_it_stands(self) -> None:
        text = (SRC / "doc" / "frameworks.md").read_text()
        page = text[text.index("## LMCache") :]
        shown = re.findall(r"--l2-adapter '(\{.*?\})'", page, re.DOTALL)
        self.assertEqual([json.loads(one)["type"] for one in shown], ["plugin", "native_plugin"])
        arena = filled(2)
        for one in shown:
            said = json.loads(one)
            said["adapter_params"]["node"] = self.node.address
            made = adapter(said, arena)
            self.addCleanup(made.close)
            self.assertTrue(store(made, keys("page", 2), objects(arena, 2, SIZE)))
        # its options are those of the table on the same page, and this one
        mine = {field.name for field in dataclasses.fields(AdapterOptions)}
        self.assertEqual(mine - {field.name for field in dataclasses.fields(Options)}, {"max_capacity_gb"})
        self.assertIn("`max_capacity_gb`", page)


if __name__ == "__main__":
    unittest.main()
