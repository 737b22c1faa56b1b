# SPDX-License-Identifier: BSD-3-Clause
"""Lives and deaths: memory until quiet, close in any order, exit, fork, a node that dies or hangs."""

import asyncio
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import weakref
from collections.abc import Callable

from support import Kvlaned, python

import kvlane
from kvlane import Op, Status


class Held(unittest.TestCase):
    """A node that was stopped: a batch to it is under way until its deadline."""

    def setUp(self) -> None:
        self.node = Kvlaned()
        self.addCleanup(self.node.kill)
        self.engine = kvlane.Engine({"KVLANE_RAILS": "tcp"}, address=self.node.address)
        self.addCleanup(self.engine.close)
        self.cache = kvlane.Cache(self.engine, self.node.address)
        self.cache.connect(20)

    def held(self, memory: object, timeout: float) -> kvlane.Batch:
        self.node.signal(signal.SIGSTOP)
        return self.cache.submit(Op.PUT, {"held": memory}, timeout)

    def test_memory_stays_until_its_batch_is_quiet(self) -> None:
        memory = bytearray(1 << 20)
        batch = self.held(memory, 0.5)
        with self.assertRaises(BufferError):
            memory.extend(b"moves it")
        batch.wait()
        self.assertEqual(batch.status, Status.TIMEOUT)
        memory.extend(b"moves it")

    def test_memory_is_let_go_after_that(self) -> None:
        class Mine(bytearray):
            pass

        memory = Mine(1 << 16)
        gone = weakref.ref(memory)
        batch = self.held(memory, 0.5)
        del memory
        gc.collect()
        self.assertIsNotNone(gone())
        batch.wait()
        self.assertIsNone(gone())

    def test_a_batch_that_is_dropped_ends_early_and_quiet(self) -> None:
        memory = bytearray(1 << 20)
        batch = self.held(memory, 300)
        del batch
        memory.extend(b"moves it")  # returned: nothing holds it any more

    def test_a_region_in_use_is_busy_and_stays(self) -> None:
        pool = self.engine.register(bytearray(4096))
        batch = self.held(pool[:], 0.5)
        with self.assertRaises(kvlane.Busy):
            pool.close()
        batch.wait()
        pool.close()
        self.assertTrue(pool.closed)

    def test_other_threads_run_while_one_waits(self) -> None:
        batch = self.held(b"x", 1.0)
        seen: list[bool] = []

        def other() -> None:
            while not seen or seen[-1]:
                seen.append(not batch.done)
                time.sleep(0.01)

        thread = threading.Thread(target=other)
        thread.start()
        batch.wait()
        thread.join()
        self.assertGreater(len(seen), 3)

    def test_close_from_another_thread_ends_a_wait(self) -> None:
        batch = self.held(b"x" * 100000, 300)
        ended: list[Status] = []
        thread = threading.Thread(target=lambda: ended.append(batch.wait() and batch.status))
        thread.start()
        self.engine.close()
        thread.join(30)
        self.assertEqual(ended, [Status.CANCELED])

    def test_a_canceled_task_leaves_quiet_memory(self) -> None:
        memory = bytearray(1 << 20)

        async def main() -> None:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.held(memory, 300), 0.2)
            memory.extend(b"moves it")

        asyncio.run(main())

    def test_a_node_killed_under_a_batch_is_the_peers_fault(self) -> None:
        memory = bytearray(os.urandom(1 << 20))
        batch = self.held(memory, 20)
        self.node.kill()
        batch.wait()
        self.assertIsInstance(batch.error, (kvlane.PeerError, kvlane.Ambiguous))
        with self.assertRaises((kvlane.PeerError, kvlane.TimedOut)):
            self.cache.put({"after": memory}, timeout=0.5)
        with Kvlaned(listen=self.node.address):  # and it works again without a new client
            until = time.monotonic() + 20
            while True:
                try:
                    return self.cache.put({"after": memory}, timeout=20)
                except kvlane.Unreachable:  # known to be down, until the next try to connect
                    self.assertLess(time.monotonic(), until)
                    time.sleep(0.05)


class Closing(unittest.TestCase):
    def test_any_order_of_close_is_fine(self) -> None:
        with kvlane.Node() as node:
            for order in itertools.permutations(range(4)):
                engine = kvlane.Engine(address=node.address)
                cache = kvlane.Cache(engine, node.address)
                pool = engine.register(bytearray(1 << 16))
                batch = cache.submit(Op.PUT, {"k": pool[:]}, 20)
                closes: list[Callable[[], object]] = [engine.close, cache.close, pool.close, batch.wait]
                for i in order:
                    try:
                        closes[i]()
                    except kvlane.Busy:
                        self.assertEqual(i, 2)
                for handle in (engine, cache):
                    handle.close()
                    self.assertTrue(handle.closed)
                self.assertTrue(batch.done)
                with self.assertRaises(kvlane.Closed):
                    cache.put({"k": b"x"})
                with self.assertRaises(kvlane.Closed):
                    engine.event_fd()

    def test_what_is_dropped_is_closed(self) -> None:
        with kvlane.Node() as node:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                engine = kvlane.Engine(address=node.address)
                cache = kvlane.Cache(engine, node.address)
                cache.put({"k": b"x"}, timeout=20)
                engine.ring = [engine, cache]  # type: ignore[attr-defined]
                del engine, cache
                gc.collect()
            end = time.monotonic() + 20  # the node closes its half when it hears of it
            while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < end:
                time.sleep(0.05)
            self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)


SETUP = """
import os, sys, threading, time, signal
import kvlane
node = kvlane.Node()
engine = kvlane.Engine(address=node.address)
cache = kvlane.Cache(engine, node.address)
pool = engine.register(bytearray(1 << 20))
cache.put({"k": pool[:]}, timeout=20)
"""


class Process(unittest.TestCase):
    def clean(self, script: str, want: str = "") -> None:
        said = python(SETUP + script)
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, want, ""))

    def test_exit_with_everything_open(self) -> None:
        self.clean("batch = cache.submit(kvlane.Op.PUT, {'x': pool[:]}, 20)")

    def test_exit_under_a_daemon_thread_that_waits(self) -> None:
        with Kvlaned() as held:
            self.clean(
                f"""
far = kvlane.Engine({{"KVLANE_RAILS": "tcp"}}, address="{held.address}")
store = kvlane.Cache(far, "{held.address}")
store.connect(20)
os.kill({held.process.pid}, signal.SIGSTOP)
def work():
    while True:
        try: store.put({{"y": b"y" * 9999}}, timeout=60)
        except kvlane.Error: break
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("exit")
""",
                "exit\n",
            )

    def test_a_child_of_fork_cannot_use_or_break_its_parents(self) -> None:
        self.clean(
            """
child = os.fork()
if child == 0:
    for call in (lambda: cache.exists(["k"]), lambda: engine.register(bytearray(8)), lambda: pool[:] and cache.put({"c": pool[:]})):
        try: call()
        except kvlane.Closed as why: assert "after fork" in str(why), why
        else: sys.exit(7)
    cache.close(), engine.close(), pool.close()
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
print(cache.exists(["k", "c"]))
""",
            "[True, False]\n",
        )

    def test_ctrl_c_ends_a_wait(self) -> None:
        with Kvlaned() as held:
            script = f"""
import kvlane, os, signal
engine = kvlane.Engine({{"KVLANE_RAILS": "tcp"}}, address="{held.address}")
cache = kvlane.Cache(engine, "{held.address}")
cache.connect(20)
os.kill({held.process.pid}, signal.SIGSTOP)
print("ready", flush=True)
try: cache.put({{"z": b"z" * 9999}}, timeout=300)
except KeyboardInterrupt: print("quiet")
"""
            env = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(kvlane.__file__))}
            child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env)
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), "ready\n")
            time.sleep(0.2)  # into the put, or before: both must end
            child.send_signal(signal.SIGINT)
            try:
                said, _ = child.communicate(timeout=30)
            finally:
                child.kill()
            self.assertEqual((child.returncode, said), (0, "quiet\n"))


if __name__ == "__main__":
    unittest.main()
