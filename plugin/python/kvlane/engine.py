# SPDX-License-Identifier: BSD-3-Clause
"""The engine that moves everything, its settings, its event fd and its place in asyncio."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Mapping
from ctypes import byref, c_void_p, create_string_buffer
from typing import Any

from .batch import Batch
from .errors import Closed, Unsupported
from .handle import Handle
from .library import EngineParams, NodeParams, check, lib, text_of
from .memory import Region

Settings = Mapping[str, object]
"""Names as in `kvlane_info -c`, such as {"KVLANE_DEPTH": 16}; on top of the environment."""


class _Config:
    """kvl_config_t for the time of a with."""

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings or {}

    def __enter__(self) -> c_void_p:
        self._config = c_void_p()
        check(lib.kvl_config_create(byref(self._config)))
        try:
            for name, value in self._settings.items():
                check(lib.kvl_config_set(self._config, str(name).encode(), str(value).encode()))
        except BaseException:
            self.__exit__()
            raise
        return self._config

    def __exit__(self, *_: Any) -> None:
        lib.kvl_config_destroy(self._config)


_engines: weakref.WeakSet[Handle] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for handle in sorted(_engines, key=lambda h: isinstance(h, Node)):  # clients before their node
        handle.close()


class Engine(Handle):
    """UCX contexts, workers and the thread that drives them.

    settings: override the environment for this engine alone, so engines of a process may differ.
    address: "host:port" it will talk to; picks the tcp device when the settings name none.
    """

    def __init__(self, settings: Settings | None = None, address: str | None = None) -> None:
        pointer = c_void_p()
        with _Config(settings) as config:
            params = EngineParams(config, address.encode() if address else None)
            check(lib.kvl_engine_create(byref(params), byref(pointer)))
            self._by_caller = text_of(lib.kvl_config_get(config, b"KVLANE_PROGRESS")) == "caller"
        super().__init__(pointer.value or 0)
        self._waiting: dict[Batch, list[asyncio.Future[None]]] = {}
        self._waiting_lock = threading.Lock()
        _engines.add(self)

    def register(self, buffer: Any) -> Region:
        """Registers a writable buffer: the buffer protocol, data_ptr(), __cuda_array_interface__, AddressRange."""
        return Region(self, buffer)

    def event_fd(self) -> int:
        """Readable when a batch completed (KVLANE_PROGRESS=caller: when progress() has work).

        Level triggered: clear_event(), then look at the batches. `await batch` uses it too: one or the
        other.
        """
        return int(self._call(lib.kvl_engine_event_fd))

    def set_event(self) -> None:
        """Makes the event fd readable, for an end of the caller's own that whoever waits there shall see.

        Unsupported with KVLANE_PROGRESS=caller.
        """
        if self._by_caller:
            raise Unsupported("set_event() is not for KVLANE_PROGRESS=caller: who drives the engine knows what ended")
        self._call(lambda pointer: os.eventfd_write(lib.kvl_engine_event_fd(pointer), 1))

    def clear_event(self) -> None:
        self._call(lib.kvl_engine_clear_event)

    def progress(self) -> int:
        """KVLANE_PROGRESS=caller: does what can be done now; the number of events handled."""
        return int(self._call(lib.kvl_engine_progress))

    def _destroy(self, pointer: int) -> None:
        _engines.discard(self)
        lib.kvl_engine_destroy(pointer)
        self._wake()

    # -- asyncio: futures of batches, resolved when the event fd speaks
    async def _completion(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        try:
            fd = self.event_fd()  # before the look at the batch: from now on completions raise the event
        except Closed:
            return
        if self._by_caller:
            self._drive()
        if batch.done:
            return
        future: asyncio.Future[None] = loop.create_future()
        with self._waiting_lock:
            self._waiting.setdefault(batch, []).append(future)
        loop.add_reader(fd, self._wake)
        try:
            if batch.done:  # its event may have been cleared for another loop before this one read it
                return
            await future
        finally:
            with self._waiting_lock:
                left = [f for f in self._waiting.get(batch, []) if f is not future]
                if left:
                    self._waiting[batch] = left
                else:
                    self._waiting.pop(batch, None)
                last = not any(f.get_loop() is loop for futures in self._waiting.values() for f in futures)
            if last:
                loop.remove_reader(fd)

    def _drive(self) -> None:
        while self.progress():
            pass

    def _wake(self) -> None:
        try:
            self.clear_event()
            if self._by_caller:
                self._drive()
        except Closed:
            pass
        with self._waiting_lock:
            ready = [f for batch, futures in self._waiting.items() if batch.done for f in futures]
        for future in ready:
            try:
                future.get_loop().call_soon_threadsafe(_resolve, future)
            except RuntimeError:  # its loop is closed, so nobody waits; the others still do
                pass


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Node(Handle):
    """A cache node inside this process: for tests and first steps; `kvlaned` is the program.

    listen: "host:port", port 0 picks one. memory: bytes to pin.
    """

    def __init__(
        self, listen: str = "127.0.0.1:0", memory: int = 64 << 20, settings: Settings | None = None
    ) -> None:
        pointer = c_void_p()
        with _Config(settings) as config:
            params = NodeParams(config, listen.encode(), memory)
            check(lib.kvl_node_create(byref(params), byref(pointer)))
        super().__init__(pointer.value or 0)
        _engines.add(self)

    @property
    def address(self) -> str:
        """ "host:port" in force."""
        text = create_string_buffer(128)
        check(self._call(lib.kvl_node_address, text, len(text)))
        return text_of(text.value)

    def _destroy(self, pointer: int) -> None:
        _engines.discard(self)
        lib.kvl_node_destroy(pointer)
