# SPDX-License-Identifier: BSD-3-Clause
"""What all objects of the library have in common: they can be closed in any order, from any thread.

A handle knows who is in a call for it (and, through its parent, for its engine): close() lets no one in
any more and waits until all are out before it destroys. A child of fork() may drop its parent's handles,
and gets Closed for anything else.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Callable

from .errors import Busy, Closed


class Handle:
    def __init__(self, pointer: int, parent: Handle | None = None) -> None:
        self._parent = parent
        self._pid = os.getpid()
        self._callers: list[int] = []  # threads that are in a call; under _gate
        self._gate = threading.Condition()  # reentrant: a finalizer may run in the middle of anything
        self._pointer: int | None = pointer

    # -- for subclasses
    def _destroy(self, pointer: int) -> None:
        raise NotImplementedError

    def _enter(self) -> int:
        if self._parent is not None:
            self._parent._enter()
        try:
            if self._pid != os.getpid():
                raise Closed(f"{self}: belongs to process {self._pid}; exec after fork(), or fork before the first engine")
            with self._gate:
                if self._pointer is None:
                    raise Closed(f"{self} is closed")
                self._callers.append(threading.get_ident())
                return self._pointer
        except Closed:
            if self._parent is not None:
                self._parent._leave()
            raise

    def _leave(self) -> None:
        with self._gate:
            self._callers.remove(threading.get_ident())
            if not self._callers:
                self._gate.notify_all()
        if self._parent is not None:
            self._parent._leave()

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        pointer = self._enter()
        try:
            return function(pointer, *arguments)
        finally:
            self._leave()

    # -- for everyone
    @property
    def closed(self) -> bool:
        if self._pointer is None or self._pid != os.getpid():
            return True
        return self._parent is not None and self._parent.closed

    def close(self) -> None:
        """Ends it; does nothing the second time, and in a child of fork()."""
        if self._pid != os.getpid():
            return
        with self._gate:
            pointer = self._pointer
            if pointer is None:
                return
            if threading.get_ident() in self._callers:
                raise Busy(f"{self}: close() inside one of its own calls")
            self._pointer = None
            while self._callers:
                self._gate.wait()
        # what an engine held is gone with it
        if self._parent is None:
            self._destroy(pointer)
            return
        try:
            self._parent._enter()
        except Closed:
            return
        try:
            self._destroy(pointer)
        except BaseException:
            self._pointer = pointer
            raise
        finally:
            self._parent._leave()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            try:
                self.close()
            except Exception:  # at exit modules may be gone; a region in use stays registered
                pass

    def __repr__(self) -> str:
        return f"<kvlane.{type(self).__name__}>"
