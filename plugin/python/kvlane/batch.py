# SPDX-License-Identifier: BSD-3-Clause
"""Batches: what was submitted and is under way, or is over."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator
from ctypes import byref, c_uint64
from typing import TYPE_CHECKING, Any

from .errors import Closed, Error, Status, error
from .library import lib, text_of

if TYPE_CHECKING:
    from .engine import Engine

_SLICE_MS = 100  # a wait looks up this often: for Ctrl-C, and for a close() of the engine


class Batch:
    """Many items, one deadline. Complete means quiet: nothing touches their memory any more.

    The memory is held until then. A batch that is dropped before it is complete is canceled, and
    waited for. `await batch` in asyncio, `batch.wait()` elsewhere.
    """

    def __init__(self, engine: Engine, pointer: int, count: int, keep: Any) -> None:
        self._engine = engine
        self._pid = os.getpid()
        self._pointer = pointer  # given back in __del__ alone, so no call can meet that
        self._keep = keep
        self._count = count

    def __len__(self) -> int:
        return self._count

    def _own(self) -> int:
        if self._pid != os.getpid():
            raise Closed(f"the batch belongs to process {self._pid}, not to its child")
        return self._pointer

    @property
    def status(self) -> Status:
        """INPROGRESS; then OK if every item is, else the worst."""
        status = Status(lib.kvl_batch_test(self._own()))
        if status != Status.INPROGRESS:
            self._keep = None
        return status

    @property
    def done(self) -> bool:
        return self.status != Status.INPROGRESS

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is complete, at most `timeout` seconds; its own deadline always comes."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self.done:
            left = _SLICE_MS
            if until is not None:
                left = int(min(left, (until - time.monotonic()) * 1000 + 0.999))
                if left <= 0:
                    return False
            try:
                self._engine._call(lambda _: lib.kvl_batch_wait(self._pointer, left))
            except Closed:  # closing: it completes every batch
                time.sleep(0.002)
        return True

    def cancel(self) -> None:
        """Asks for an early end; it still has to be waited for."""
        try:
            self._own()
            self._engine._call(lambda _: lib.kvl_batch_cancel(self._pointer))
        except Closed:
            pass

    @property
    def cause(self) -> str:
        """Why it failed, in words; "" if it did not."""
        return text_of(lib.kvl_batch_cause(self._own()))

    def item(self, index: int) -> tuple[Status, int]:
        """Status of an item of a complete batch, and the stored length where known (get, exists)."""
        if not 0 <= index < self._count:
            raise IndexError(f"item {index} of {self._count}")
        length = c_uint64()
        status = Status(lib.kvl_batch_item(self._own(), index, byref(length)))
        return status, length.value

    @property
    def statuses(self) -> list[Status]:
        """The items' statuses, in the order of the submit."""
        if self.status == Status.OK:
            return [Status.OK] * self._count
        return [self.item(i)[0] for i in range(self._count)]

    @property
    def lengths(self) -> list[int]:
        """The items' stored lengths, 0 where unknown."""
        return [self.item(i)[1] for i in range(self._count)]

    @property
    def error(self) -> Error | None:
        """The exception for what happened; None if all is well or not over."""
        status = self.status
        return None if status >= 0 else error(status, self.cause)

    def check(self) -> Batch:
        """Raises `error` if there is one."""
        found = self.error
        if found is not None:
            raise found
        return self

    async def _finished(self) -> Batch:
        try:
            await self._engine._completion(self)
        except asyncio.CancelledError:
            self.cancel()
            await self._engine._completion(self)
            raise
        return self

    def __await__(self) -> Generator[Any, None, Batch]:
        """Waits until it is complete; does not raise for what happened (see check)."""
        return self._finished().__await__()

    def __del__(self) -> None:
        if getattr(self, "_pid", None) != os.getpid():
            return
        if not self.done:
            self.cancel()
            self.wait()
        lib.kvl_batch_release(self._pointer)

    def __repr__(self) -> str:
        return f"<kvlane.Batch of {self._count}>"
