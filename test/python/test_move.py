# SPDX-License-Identifier: BSD-3-Clause
"""Bytes to a kvlaned and back, over shared memory and tcp; wrong arguments; asyncio and the event fd."""

import array
import asyncio
import ctypes
import os
import select
import threading
import unittest
from typing import Any

from support import NodeStage

import kvlane
from kvlane import Op, Status

RAILS = {"shm": "auto", "tcp": "tcp"}
# what each must come out as; the other end is kvlaned on loopback
TRANSPORTS = {"shm": {"posix", "sysv"}, "tcp": {"tcp"}}


class Stage(NodeStage):
    def client(self, **settings: object) -> tuple[kvlane.Engine, kvlane.Cache]:
        engine = kvlane.Engine({f"KVLANE_{k}": v for k, v in settings.items()}, address=self.node.address)
        self.addCleanup(engine.close)
        cache = kvlane.Cache(engine, self.node.address)
        cache.connect(20)
        return engine, cache


class Roundtrip(Stage):
    def test_segments_come_back_over_each_transport(self) -> None:
        for name, rails in RAILS.items():
            with self.subTest(name):
                engine, cache = self.client(RAILS=rails)
                self.assertIn(cache.session().transport, TRANSPORTS[name])
                memory = bytearray(os.urandom(1 << 20))
                pool = engine.register(memory)
                # 61 segments that do not touch, in no order; got in another split
                places = [(i * 37 % 61) * 8192 for i in range(61)]
                want = b"".join(memory[at : at + 4296] for at in places)
                cache.put({f"{name} sg": [pool[at : at + 4296] for at in places]}, timeout=20)
                out = bytearray(len(want))
                cut = memoryview(out)
                cache.get([(f"{name} sg", [cut[:1000], cut[1000:200000], cut[200000:]])], timeout=20)
                self.assertEqual(out, want)
                many = {f"{name} {i}": pool[i * 4096 : (i + 1) * 4096] for i in range(200)}
                cache.put(many, timeout=20)
                before = bytes(memory)
                memory[:] = bytes(len(memory))
                cache.get(many, timeout=20)
                self.assertEqual(memory[: 200 * 4096], before[: 200 * 4096])

    def test_rails_tell_what_went_over_each_lane(self) -> None:
        engine, cache = self.client(RAILS="tcp")
        (before,) = cache.rails()
        pool = engine.register(bytearray(3 * 65536))
        cache.put({"rails": [pool[0:65536], pool[131072:196608]]}, timeout=20)
        cache.exists(["rails"], timeout=20)
        (after,) = cache.rails()
        self.assertEqual((after.state, after.fails, after.sg.completions), ("up", 0, after.sg.ops))
        self.assertEqual(after.sg.bytes - before.sg.bytes, 131072)
        self.assertGreater(after.ctrl.ops, before.ctrl.ops)

    def test_exists_and_remove_answer_for_each_key(self) -> None:
        _, cache = self.client()
        cache.put({b"\x00\xff": b"1", "two": b"22"}, timeout=20)
        self.assertEqual(cache.exists([b"\x00\xff", "no", "two"]), [True, False, True])
        batch = cache.submit(Op.EXISTS, ["two", "no"])
        batch.wait()
        self.assertEqual((batch.lengths, batch.statuses), ([2, 0], [Status.OK, Status.NOT_FOUND]))
        self.assertTrue(cache.submit(Op.EXISTS, ["two"]).wait(float("inf")))
        self.assertEqual(cache.remove(["two", "no"]), [True, False])
        self.assertEqual((cache.exists(["two"]), cache.exists([])), ([False], []))

    def test_every_kind_of_memory_can_be_put(self) -> None:
        class Tensor:  # as torch's: no buffer protocol
            def __init__(self) -> None:
                self.data = (ctypes.c_int16 * 3)(1, 2, 3)

            def data_ptr(self) -> int:
                return ctypes.addressof(self.data)

            def numel(self) -> int:
                return 3

            def element_size(self) -> int:
                return 2

            def is_contiguous(self) -> bool:
                return True

        six = b"\1\0\2\0\3\0"
        _, cache = self.client()
        kinds: list[Any] = [six, bytearray(six), memoryview(b"x" + six + b"x")[1:7], array.array("h", [1, 2, 3]), Tensor()]
        kinds.append(kvlane.AddressRange(kinds[-1].data_ptr(), 6))
        for kind in kinds:
            with self.subTest(type(kind).__name__):
                cache.put({"kind": kind}, timeout=20)
                out = bytearray(6)
                cache.get({"kind": out}, timeout=20)
                self.assertEqual(out, six)

    def test_settings_are_an_engines_own(self) -> None:
        depths = {depth: self.client(DEPTH=depth, SG_ENDPOINTS=depth)[1] for depth in (1, 3)}
        for depth, cache in depths.items():
            self.assertEqual((cache.session().depth, cache.session().sg_endpoints), (depth, depth))
        self.assertNotIn("KVLANE_DEPTH", os.environ)

    def test_a_node_in_this_process_serves(self) -> None:
        with kvlane.Node() as node, kvlane.Engine(address=node.address) as engine:
            cache = kvlane.Cache(engine, node.address)
            cache.put({"k": b"value"}, timeout=20)
            self.assertEqual(cache.stat(20)["keys"], 1)


class Wrong(Stage):
    def refused(self, kind: type[BaseException], text: str, call: Any, *arguments: Any) -> None:
        with self.assertRaisesRegex(kind, text):
            call(*arguments)

    def test_arguments_are_refused_by_name(self) -> None:
        engine, cache = self.client()
        pool = engine.register(bytearray(8192))
        other, _ = self.client()
        foreign = other.register(bytearray(8))
        gone = engine.register(bytearray(8))
        gone.close()
        for value, kind, text in (
            (7, TypeError, "a int is no memory"),
            ("text", TypeError, "a str is no memory"),
            (b"", kvlane.Invalid, "has no bytes; a value"),
            ([], kvlane.Invalid, "0 to 0 segments"),
            (memoryview(b"abcdef")[::2], kvlane.Invalid, "not C-contiguous"),
            ([pool[0:1]] * 1025, kvlane.Invalid, "1025 segments"),
            (foreign[:], kvlane.Invalid, "another engine"),
            (gone[:], kvlane.Closed, "Region"),
        ):
            self.refused(kind, text, cache.put, {"k": value})
        self.refused(kvlane.Invalid, "(?i)read-?only|not writable", cache.get, {"k": b"abc"})
        self.refused(TypeError, "a key is bytes or str, not int", cache.put, {7: b"x"})
        self.refused(kvlane.Invalid, "1 to 255", cache.put, {"": b"x"})
        self.refused(kvlane.Invalid, "1 to 255", cache.exists, ["x" * 256])
        for items in ({}, [], iter(())):
            cache.put(items)
            cache.get(items)
        self.refused(kvlane.Invalid, "timeout is 0", cache.put, {"k": b"x"}, 0)
        self.refused(kvlane.Invalid, "timeout is inf", cache.put, {"k": b"x"}, float("inf"))
        self.refused(kvlane.Invalid, "timeout is nan", cache.put, {"k": b"x"}, float("nan"))
        self.refused(TypeError, "timeout is a str", cache.put, {"k": b"x"}, "5")
        self.refused(TypeError, "timeout is a str", cache.exists, [], "5")
        for call in (cache.exists, cache.remove):
            self.refused(TypeError, "list of keys is wanted, not one str", call, "abc")
            self.refused(TypeError, "not one bytes", call, b"abc")
        self.refused(TypeError, "not one str", cache.submit, Op.EXISTS, "abc")
        self.refused(kvlane.Invalid, "read-?only|not writable", engine.register, b"bytes")
        self.refused(kvlane.OutOfRange, "of a region of 8192", pool.segment, 8000, 193)
        self.refused(IndexError, "byte 8193 of a region of 8192", lambda: pool[0:8193])
        self.refused(IndexError, "byte -8193", lambda: pool[-8193:])
        self.refused(TypeError, "no slice", lambda: pool[7])
        self.assertEqual((pool[-2:].offset, pool[-2:].length, pool[0:8192].length), (8190, 2, 8192))
        self.refused(kvlane.Invalid, "contiguous", lambda: pool[0:100:2])
        self.refused(
            kvlane.Invalid,
            "do not fit",
            lambda: cache.submit_columns(Op.PUT, kvlane.Columns([b"k"], [pool.address], [8, 8], [1])),
        )
        self.refused(
            kvlane.Invalid,
            "no region",
            lambda: cache.submit_columns(Op.PUT, kvlane.Columns([b"k"], [pool.address + 8192], [8], [1])),
        )

    def test_device_memory_is_refused_and_not_touched(self) -> None:
        class Cuda:
            def __init__(self, **more: object) -> None:
                self.__cuda_array_interface__ = {"shape": (4, 2), "typestr": "<f2", "data": (4096, False), **more}

        engine, _ = self.client()
        self.refused(kvlane.Unsupported, "the CPU cannot read them", engine.register, Cuda())
        self.refused(kvlane.Invalid, r"strides \(8, 2\), wanted \(4, 2\)", engine.register, Cuda(strides=(8, 2)))
        self.refused(kvlane.Invalid, "read-only", engine.register, Cuda(data=(4096, True)))

    def test_a_stream_is_for_device_memory(self) -> None:
        _, cache = self.client()
        for stream in (0, 1):
            self.refused(kvlane.Invalid, "none of its memory", cache.submit, Op.PUT, {"k": b"v"}, 5, stream)

    def test_settings_are_refused_by_name(self) -> None:
        self.refused(kvlane.ConfigError, "KVLANE_DEPHT", kvlane.Engine, {"KVLANE_DEPHT": 1})
        self.refused(kvlane.ConfigError, "KVLANE_DEPTH", kvlane.Engine, {"KVLANE_DEPTH": "many"})
        with kvlane.Engine() as engine:
            self.refused(kvlane.Invalid, "nonsense", kvlane.Cache, engine, "nonsense")

    def test_a_failed_item_does_not_fail_its_neighbours(self) -> None:
        _, cache = self.client()
        cache.put({"four": b"1234"}, timeout=20)
        short, right, none = bytearray(3), bytearray(4), bytearray(4)
        batch = cache.submit(Op.GET, [("four", short), ("four", right), ("none", none)])
        batch.wait()
        self.assertEqual(batch.statuses, [Status.LENGTH, Status.OK, Status.NOT_FOUND])
        self.assertEqual(right, b"1234")
        self.assertIsInstance(batch.error, kvlane.ItemError)
        self.assertTrue(batch.cause)
        self.refused(kvlane.LengthMismatch, "four", cache.get, {"four": short})
        self.refused(IndexError, "item 3 of 3", batch.item, 3)


class Waiting(Stage):
    def test_await_completes_many_batches(self) -> None:
        engine, cache = self.client()
        memory = bytearray(b"v" * (1 << 16))
        pool = engine.register(memory)

        async def main() -> list[Status]:
            batches = [cache.submit(Op.PUT, {f"a{i}": pool[:]}) for i in range(40)]
            done = await asyncio.gather(*batches)
            done.append(await cache.submit(Op.EXISTS, [f"a{i}" for i in range(40)]))
            return [batch.status for batch in done]

        self.assertEqual(asyncio.run(main()), [Status.OK] * 41)
        self.assertEqual(asyncio.run(main()), [Status.OK] * 41)  # another loop

    def test_two_loops_share_an_engine(self) -> None:
        _, cache = self.client()
        failed: list[BaseException] = []

        async def main() -> None:
            for _ in range(50):
                (await asyncio.wait_for(cache.submit(Op.PUT, {"x": b"x"}), 20)).check()

        def work() -> None:
            try:
                asyncio.run(main())
            except BaseException as why:
                failed.append(why)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_a_closed_loop_does_not_stop_the_others(self) -> None:
        engine, cache = self.client()
        closed, lives = asyncio.new_event_loop(), asyncio.new_event_loop()
        self.addCleanup(lives.close)
        batches = [cache.submit(Op.PUT, {key: b"x"}) for key in "abc"]
        futures = [loop.create_future() for loop in (closed, lives, closed)]
        engine._waiting.update({batch: [future] for batch, future in zip(batches, futures)})
        closed.close()
        for batch in batches:
            self.assertTrue(batch.wait(20))
        engine._wake()
        lives.run_until_complete(asyncio.wait_for(futures[1], 20))
        engine._waiting.clear()

    def test_loops_that_come_and_go_share_an_engine(self) -> None:
        _, cache = self.client()
        failed: list[BaseException] = []

        async def main(key: str) -> None:
            (await asyncio.wait_for(cache.submit(Op.PUT, {key: b"x"}), 20)).check()

        def work(name: int) -> None:
            try:
                for i in range(40):
                    asyncio.run(main(f"{name} {i}"))
            except BaseException as why:
                failed.append(why)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_await_works_when_the_caller_drives(self) -> None:
        _, cache = self.client(PROGRESS="caller")

        async def main() -> Status:
            return (await asyncio.wait_for(cache.submit(Op.PUT, {"c": b"c" * 5000}), 20)).status

        self.assertEqual(asyncio.run(main()), Status.OK)

    def test_the_event_fd_says_when_to_look(self) -> None:
        engine, cache = self.client()
        fd = engine.event_fd()
        batch = cache.submit(Op.PUT, {"e": b"e"})
        while not batch.done:
            self.assertTrue(select.select([fd], [], [], 20)[0])
            engine.clear_event()
        self.assertEqual(batch.status, Status.OK)

    def test_the_event_fd_can_be_set_for_an_end_of_ones_own(self) -> None:
        engine, _ = self.client()
        fd = engine.event_fd()
        self.assertEqual(select.select([fd], [], [], 0)[0], [])
        engine.set_event()
        self.assertEqual(select.select([fd], [], [], 0)[0], [fd])
        engine.clear_event()
        self.assertEqual(select.select([fd], [], [], 0)[0], [])
        by_caller, _ = self.client(PROGRESS="caller")
        with self.assertRaisesRegex(kvlane.errors.Unsupported, "KVLANE_PROGRESS=caller"):
            by_caller.set_event()
        engine.close()
        with self.assertRaises(kvlane.errors.Closed):
            engine.set_event()


if __name__ == "__main__":
    unittest.main()
