# SPDX-License-Identifier: BSD-3-Clause
"""KvlaneConnector: what LMCache wants of a native connector, on a kvlane.Cache.

A future is a batch with a deadline of its own, so it ends whatever happens to the node, and ends quiet: LMCache
may use the memory again. LMCache waits at kvlane's event fd; futures that end at once raise it too. There is
no thread here. submit_* come from several of LMCache's threads and under a lock of its own: they never wait
for the node, and never raise.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import kvlane
from kvlane import Batch, Op, Region, Status
from kvlane.connector import Client, Funnel, Options
from kvlane.library import KEY_MAX
from kvlane.memory import View

KV = "kv"
_FRONT = b"lmcache/"
_DEADLINE_BYTES = 1 << 30  # under way, for which a deadline is meant; more have more time
Completion = tuple[int, bool, str, "list[bool] | None"]


def name_of(key: str) -> bytes:
    """LMCache's key says which bytes these are (model, slice of it, tokens, salt) and nothing of where they
    lie; one that is too long for a node goes by its hash."""
    name = _FRONT + key.encode()
    if len(name) > KEY_MAX:
        name = b"lmcache#" + hashlib.blake2b(key.encode(), digest_size=32).hexdigest().encode()
    return name


def _text(why: Exception) -> str:
    return f"{type(why).__name__}: {why}"


class Pending(NamedTuple):
    op: Op
    names: list[bytes]
    sizes: list[int]
    asked: list[int]
    """Which of the names the batch is about."""
    total: int
    """Bytes that move."""
    batch: Batch


class KvlaneConnector:
    """For "type": "native_plugin", which gives the adapter_params as keywords."""

    def __init__(self, options: Options | None = None, **params: Any) -> None:
        options = options or Options.parse(params)
        progress = options.settings.get("KVLANE_PROGRESS", "thread")
        if progress != "thread":
            raise ValueError(f"kvlane: KVLANE_PROGRESS is {progress} in option settings; accepted: thread")
        # the environment may say otherwise, for others
        options = dataclasses.replace(options, settings=options.settings | {"KVLANE_PROGRESS": "thread"})
        self._client = Client(options)
        self._cache, self._options = self._client.cache, options
        self._arena: Region | None = None
        self._futures = itertools.count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._ended: list[Completion] = []
        self._funnel = Funnel()
        self._event_fd = self._client.engine.event_fd()

    def register(self, address: int, length: int) -> None:
        """The memory in which all objects lie, before the first of them moves. Raises kvlane.Error."""
        self._arena = self._client.engine.register(kvlane.AddressRange(address, length))

    def session(self) -> kvlane.Session:
        """What is in force with the node: depth, endpoints, transports."""
        return self._client.session()

    def status(self) -> dict[str, Any]:
        return {
            "node": self._options.node,
            "answers": self._client.health.up(),
            "l1_registered_bytes": 0 if self._arena is None else self._arena.length,
            "funnel": self._funnel.rows().get(KV, {}),
        }

    # -- what LMCache calls
    def event_fd(self) -> int:
        return self._event_fd

    def submit_batch_set(self, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        return self._submit(Op.PUT, keys, views)

    def submit_batch_get(self, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        return self._submit(Op.GET, keys, views)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(Op.EXISTS, keys, ())

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        return self._submit(Op.REMOVE, keys, ())

    def drain_completions(self) -> list[Completion]:
        """Futures that ended since the last call: number, whether it went well, why not, and of each key
        (but of a set) whether it was got, is there, or is gone."""
        try:
            self._client.engine.clear_event()
        except kvlane.errors.Closed:
            return []
        with self._lock:
            ended, self._ended = self._ended, []
            done = [(future, pending) for future, pending in self._pending.items() if pending.batch.done]
            for future, _ in done:
                del self._pending[future]
        return ended + [self._completion(future, pending) for future, pending in done]

    def close(self) -> None:
        """What is under way ends first, and nobody is told any more."""
        self._client.close()
        with self._lock:
            self._pending.clear()

    # -- from here to there
    def _submit(self, op: Op, keys: Sequence[str], views: Sequence[memoryview]) -> int:
        future = next(self._futures)
        try:
            names = [name_of(key) for key in keys]
            if not self._client.health.up():
                self._end_now(future, op, len(names), f"{self._options.node} does not answer")
                return future
            pending = self._start(op, names, views) if names else None
            if pending is None:
                self._end_now(future, op, len(names), "")
                return future
            with self._lock:
                self._pending[future] = pending
            if pending.batch.done:  # and its event may have been cleared before it could be found
                self._client.engine.set_event()
        except Exception as why:
            self._client.complain(f"submit of {op.name.lower()}", why)
            self._end_now(future, op, len(keys), _text(why))
        return future

    def _start(self, op: Op, names: list[bytes], views: Sequence[memoryview]) -> Pending | None:
        """None if there is nothing to ask the node for."""
        sizes = [view.nbytes for view in views]
        total = sum(sizes)
        if op in (Op.PUT, Op.GET):
            items = [(name, self._place(view, op)) for name, view in zip(names, views, strict=True)]
            seconds = self._options.put_timeout if op == Op.PUT else self._options.get_timeout
            with self._lock:
                under_way = total + sum(pending.total for pending in self._pending.values())
            seconds *= max(1.0, under_way / _DEADLINE_BYTES)
            return Pending(op, names, sizes, [*range(len(names))], total, self._cache.submit(op, items, seconds))
        lost = set(names) - set(self._client.lost.without(names)) if op == Op.EXISTS else set()
        asked = [i for i, name in enumerate(names) if name not in lost]
        if not asked:
            return None
        batch = self._cache.submit(op, [names[i] for i in asked], self._options.exists_timeout)
        return Pending(op, names, sizes, asked, total, batch)

    def _place(self, view: memoryview, op: Op) -> Any:
        """As a part of the arena, or else as it is: then it is registered for as long as the batch lives."""
        if self._arena is not None:
            place = View(view, writable=op == Op.GET)
            offset = place.address - self._arena.address
            if offset >= 0 and offset + place.length <= self._arena.length:
                return self._arena.segment(offset, place.length)
        return view

    # -- and back
    def _end_now(self, future: int, op: Op, count: int, why: str) -> None:
        """A future of which nobody need be asked; with a reason a failed one."""
        with self._lock:
            self._ended.append((future, not why, why, None if op == Op.PUT else [False] * count))
        try:
            self._client.engine.set_event()
        except kvlane.errors.Closed:
            pass

    def _completion(self, future: int, pending: Pending) -> Completion:
        op, names, sizes, asked, _, batch = pending
        try:
            why = self._client.settle(batch).error
            welcome = (Status.OK, Status.NOT_FOUND) if op == Op.REMOVE else (Status.OK,)  # gone is gone
            flags = [False] * len(names)
            for i, status in zip(asked, batch.statuses):
                flags[i] = status in welcome
            self._count(op, flags, sizes)
            if op in (Op.PUT, Op.GET):
                self._client.learn(op, names, flags, batch)
            if op == Op.PUT:
                return future, why is None, "" if why is None else str(why), None
            failed = why is not None and not isinstance(why, kvlane.ItemError)
            return future, not failed, str(why) if failed else "", flags
        except Exception as why:
            self._client.complain(f"end of {op.name.lower()}", why)
            return future, False, _text(why), None if op == Op.PUT else [False] * len(names)

    def _count(self, op: Op, flags: Sequence[bool], sizes: Sequence[int]) -> None:
        if op == Op.EXISTS:
            self._funnel.queried(KV, len(flags), sum(flags))
        elif op != Op.REMOVE:
            moved = sum(size for ok, size in zip(flags, sizes) if ok)
            self._funnel.moved(op, KV, len(flags), sum(flags), moved)
