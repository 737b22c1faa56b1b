# SPDX-License-Identifier: BSD-3-Clause
"""One real NIXL agent in a process of its own, told what to do over a pipe. Agent is its remote control."""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, Pipe
from typing import Any

BACKEND = os.environ.get("NIXL_TEST_BACKEND", "KVLANE")
STORE = "KVLANEKV"


class Agent:
    """Starts the process; every method of Inside is one of this class. What raises there, raises NixlError here."""

    def __init__(self, name: str, size: int, params: dict[str, str] | None = None, env: dict[str, str] | None = None,
                 backends: tuple[str, ...] = (BACKEND,), preload: str = "", gpu: str = ""):
        self.pipe, theirs = Pipe()
        # LD_LIBRARY_PATH has stand-ins for CUDA's libraries, for those who import torch
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        # the UCX in NIXL's wheel crashes in its module for InfiniBand where there is none
        environment.update({"UCX_MODULES": "^ib", **(env or {})})
        self.log = tempfile.TemporaryFile("w+")  # no pipe, which may fill
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()],
            stderr=self.log,
        )
        theirs.close()
        self.name = name
        self.pipe.send((name, size, params or {}, backends, preload, gpu))

    def start(self) -> None:
        """It is there when this returns."""
        self.answer(60)

    def answer(self, seconds: float = 90) -> Any:
        """To what was asked."""
        try:
            if not self.pipe.poll(seconds):
                raise TimeoutError(f"agent {self.name}: no answer after {seconds} s")
            good, result = self.pipe.recv()
        except EOFError:
            self.process.wait(20)
            raise AgentDied(f"agent {self.name}: exit {self.process.returncode}\n{self.said()}") from None
        if not good:
            raise NixlError(result)
        return result

    def ask(self, method: str, *arguments: Any) -> None:
        """Without waiting for the answer."""
        self.pipe.send((method, arguments))

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any) -> Any:
            self.ask(method, *arguments)
            return self.answer(90)

        return call

    def stop(self) -> None:
        """SIGSTOP; returns when it stands still."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> str:
        """Closes it; what it said on stderr."""
        self.pipe.close()
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.said()

    def said(self) -> str:
        """What it said on stderr; after its end."""
        if not self.log.closed:
            self.log.seek(0)
            self.text = self.log.read()
            self.log.close()
        return self.text


class NixlError(Exception):
    pass


class AgentDied(Exception):
    pass


# ---- in the process ----


def bytes_of(seed: int, length: int) -> Any:
    import numpy

    return numpy.random.default_rng(seed).integers(0, 256, length, dtype=numpy.uint8)


class Inside:
    def __init__(self, name: str, size: int, params: dict[str, str], backends: tuple[str, ...], preload: str,
                 gpu: str):
        import numpy
        import nixl_cu12 as nixl

        if preload:
            self.preloaded = ctypes.CDLL(preload, mode=ctypes.RTLD_GLOBAL)
        logging.disable(logging.INFO)
        self.gpu, self.kind = None, "DRAM"
        if gpu:
            from nixl_gpu import Gpu

            self.gpu, self.kind = Gpu(gpu, size), "VRAM"
            self.address = self.gpu.address
        else:
            self.pages = mmap.mmap(-1, size)
            self.memory = numpy.frombuffer(self.pages, dtype=numpy.uint8)
            self.address = self.memory.ctypes.data
        self.name = name
        self.agent = nixl.nixl_agent(name, nixl.nixl_agent_config(enable_prog_thread=False, backends=[]))
        for backend in backends:
            self.agent.create_backend(backend, params if backend in (BACKEND, STORE) else {})
        self.registered = self.agent.register_memory([(self.address, size, 0, "")], self.kind)
        self.handles: dict[int, Any] = {}
        self.waiting: list[tuple[str, bytes]] = []
        self.pipe: Connection

    def base(self) -> int:
        return self.address

    def metadata(self) -> bytes:
        return self.agent.get_agent_metadata()

    def add(self, metadata: bytes) -> str:
        name = self.agent.add_remote_agent(metadata)
        return name.decode() if isinstance(name, bytes) else name

    def remove(self, name: str) -> None:
        self.agent.remove_remote_agent(name)

    def plugin_params(self) -> dict[str, str]:
        return self.agent.get_plugin_params(BACKEND)

    def plugin_mems(self) -> list[str]:
        return self.agent.get_plugin_mem_types(BACKEND)

    def files(self) -> int:
        return len(os.listdir("/proc/self/fd"))

    def register_pages(self, kind: str, device: int) -> None:
        """Host memory, under that name."""
        self.pages = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.agent.register_memory([(address, 4096, device, "")], kind, backends=[BACKEND])

    def register_own(self, kind: str, device: int) -> None:
        self.agent.register_memory([(self.address, 4096, device, "")], kind, backends=[BACKEND])

    def deregister(self) -> None:
        self.agent.deregister_memory(self.registered)

    # memory

    def fill(self, seed: int, offset: int, length: int) -> None:
        if self.gpu:
            self.gpu.write(offset, bytes_of(seed, length).tobytes())
        else:
            self.memory[offset:offset + length] = bytes_of(seed, length)

    def set(self, value: int, offset: int, length: int) -> None:
        self.memory[offset:offset + length] = value

    def read(self, offset: int, length: int) -> bytes:
        return self.gpu.read(offset, length) if self.gpu else self.memory[offset:offset + length].tobytes()

    def is_filled(self, seed: int, offset: int, length: int) -> bool:
        return self.read(offset, length) == bytes_of(seed, length).tobytes()

    def count(self, value: int, offset: int, length: int) -> int:
        return int((self.memory[offset:offset + length] == value).sum())

    # requests

    def make(self, op: str, peer: str, base: int, blocks: list[tuple[int, int, int]], prepped: bool = False,
             there_is: str = "") -> int:
        """Blocks: offset here, offset there, bytes. `there_is`: kind of the memory there, if not of ours."""
        import numpy

        here = numpy.array([(self.address + a, n, 0) for a, _, n in blocks], dtype=numpy.uint64)
        there = numpy.array([(base + b, n, 0) for _, b, n in blocks], dtype=numpy.uint64)
        if prepped:
            index = numpy.arange(len(blocks), dtype=numpy.int32)
            local = self.agent.prep_xfer_dlist("NIXL_INIT_AGENT", here, self.kind, backends=[BACKEND])
            remote = self.agent.prep_xfer_dlist(peer, there, there_is or self.kind, backends=[BACKEND])
            handle = self.agent.make_prepped_xfer(op, local, index, remote, index, backends=[BACKEND])
        else:
            handle = self.agent.initialize_xfer(
                op, self.agent.get_xfer_descs(here, self.kind), self.agent.get_xfer_descs(there, there_is or self.kind),
                peer, backends=[BACKEND],
            )
        number = len(self.handles)
        self.handles[number] = handle
        return number

    def post(self, number: int, note: bytes = b"") -> str:
        return self.agent.transfer(self.handles[number], note)

    def state(self, number: int) -> str:
        return self.agent.check_xfer_state(self.handles[number])

    def wait(self, number: int, seconds: float = 30) -> str:
        until = time.monotonic() + seconds
        state = "PROC"
        while state == "PROC" and time.monotonic() < until:
            state = self.agent.check_xfer_state(self.handles[number])
        return state

    def move(self, *arguments: Any) -> str:
        """make, post, wait, release"""
        number = self.make(*arguments)
        state = self.post(number)
        state = self.wait(number) if state == "PROC" else state
        self.release(number)
        return state

    def release(self, number: int) -> None:
        self.agent.release_xfer_handle(self.handles[number])

    # objects of a store

    def move_objects(self, op: str, blocks: list[tuple[str, int, int, int]]) -> str:
        """Blocks: key, offset here, offset in the object, bytes. A key that is a number is the object's device."""
        sizes: dict[str, int] = {}
        for key, _, there, length in blocks:
            sizes[key] = max(sizes.get(key, 0), there + length)
        numbers = {key: int(key) if key.isdigit() else 1000 + i for i, key in enumerate(sizes)}
        objects = self.agent.register_memory(
            [(0, size, numbers[key], "" if key.isdigit() else key) for key, size in sizes.items()], "OBJ", backends=[STORE]
        )
        try:
            handle = self.agent.initialize_xfer(
                op,
                self.agent.get_xfer_descs([(self.address + here, n, 0) for _, here, _, n in blocks], self.kind),
                self.agent.get_xfer_descs([(there, n, numbers[key]) for key, _, there, n in blocks], "OBJ"),
                self.name, backends=[STORE],
            )
            number = len(self.handles)
            self.handles[number] = handle
            state = self.agent.transfer(handle)
            state = self.wait(number) if state == "PROC" else state
            self.release(number)
        finally:
            self.agent.deregister_memory(objects, backends=[STORE])
        return state

    def objects_there(self, keys: list[str]) -> list[bool]:
        found = self.agent.query_memory([(0, 0, 0, key) for key in keys], STORE, "OBJ")
        return [it is not None for it in found]

    # for test/perf/nixl_compare

    def shuffled(self, count: int, length: int) -> list[tuple[int, int, int]]:
        import numpy

        places = numpy.random.default_rng(7).permutation(count)
        return [(i * length, int(places[i]) * length, length) for i in range(count)]

    def measure(self, op: str, peer: str, base: int, count: int, length: int, posts: int) -> list[tuple[float, float]]:
        """Microseconds of transfer() alone, and until it is done; the first post is left out."""
        number = self.make(op, peer, base, self.shuffled(count, length))
        handle, times = self.handles[number], []
        for _ in range(posts + 1):
            t0 = time.perf_counter_ns()
            state = self.agent.transfer(handle)
            t1 = time.perf_counter_ns()
            while state == "PROC":
                state = self.agent.check_xfer_state(handle)
            t2 = time.perf_counter_ns()
            assert state == "DONE", state
            times.append(((t1 - t0) / 1e3, (t2 - t0) / 1e3))
        self.release(number)
        return times[1:]

    def shuffled_equals(self, sent: bytes, count: int, length: int, op: str) -> bool:
        """Is what came, in its shuffled places, what was sent?"""
        import numpy

        got = self.memory[: count * length].reshape(count, length)
        source = numpy.frombuffer(sent, dtype=numpy.uint8).reshape(count, length)
        places = numpy.random.default_rng(7).permutation(count)
        return bool((got[places] == source).all() if op == "WRITE" else (got == source[places]).all())

    def drive(self) -> None:
        """Looks for notifications until somebody has something else to say."""
        while not self.pipe.poll(0):
            self.agent.get_new_notifs()

    # notifications

    def send(self, peer: str, note: bytes) -> None:
        self.agent.send_notif(peer, note)

    def notes(self, count: int, seconds: float = 30) -> list[tuple[str, bytes]]:
        """The next ones, as soon as there are so many."""
        until = time.monotonic() + seconds
        while len(self.waiting) < count and time.monotonic() < until:
            for name, notes in self.agent.get_new_notifs().items():
                name = name.decode() if isinstance(name, bytes) else name
                self.waiting += [(name, note) for note in notes]
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found

    def note_then_read(self, length: int) -> tuple[list[tuple[str, bytes]], bytes]:
        """The memory at the moment that a notification is there."""
        return self.notes(1), self.read(0, length)


def main() -> int:
    pipe = Connection(int(sys.argv[1]))
    inside = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            if inside is None:
                inside, result = Inside(*message), None
                inside.pipe = pipe
            else:
                result = getattr(inside, message[0])(*message[1])
            pipe.send((True, result))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"[:500]))
    sys.stderr.flush()
    return 0


if __name__ == "__main__":
    main()
    os._exit(0)  # not through the exit handlers of the wheel's UCX, which crash
