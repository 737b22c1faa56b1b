# SPDX-License-Identifier: BSD-3-Clause
"""A client of a cache node: put, get, exists and remove, on many items at a time."""

from __future__ import annotations

import enum
import math
import numbers
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from ctypes import byref, c_size_t, c_void_p
from itertools import accumulate
from typing import Any, NamedTuple, Union

from .batch import Batch
from .engine import Engine
from .errors import Invalid, LimitExceeded, Status, error
from .handle import Handle
from .library import (
    BATCH_MAX,
    KEY_MAX,
    RAILS_MAX,
    SEGMENTS_MAX,
    BatchParams,
    LaneStat,
    NodeStat,
    RailStat,
    SessionInfo,
    check,
    lib,
)
from .memory import Region, Segment, View

Key = Union[bytes, str]
Items = Union[Mapping[Key, Any], Iterable[tuple[Key, Any]]]
"""Keys with their value: a Segment, a buffer, or a list of those (1 to 1,024) in the value's order.

Segments of a region are what is fast; a plain buffer is registered for each batch.
"""


class Op(enum.IntEnum):
    PUT = 0
    GET = 1
    EXISTS = 2
    REMOVE = 3


class Columns(NamedTuple):
    """Items as columns, for callers that have addresses at hand; nothing in it keeps memory alive.

    addresses, lengths: of all segments, item by item. regions: of each segment, 0: looked up.
    counts: segments of each item.
    """

    keys: Sequence[bytes]
    addresses: Sequence[int]
    lengths: Sequence[int]
    counts: Sequence[int]
    regions: Sequence[int] | None = None


class _Rows:
    """Gathers items into columns. A plain buffer is registered for as long as the batch lives."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.regions: dict[Region, int] = {}
        self.keys: list[bytes] = []
        self.addresses: list[int] = []
        self.lengths: list[int] = []
        self.counts: list[int] = []
        self.handles: list[int] = []

    @property
    def columns(self) -> Columns:
        return Columns(self.keys, self.addresses, self.lengths, self.counts, self.handles)

    def add(self, inside: ExitStack, key: bytes, value: Any, writable: bool) -> None:
        single = isinstance(value, Segment) or not isinstance(value, (list, tuple))
        parts = (value,) if single else value
        for part in parts:
            if not isinstance(part, Segment):
                part = Region(self._engine, part, writable).segment()
            self.addresses.append(part.address)
            self.lengths.append(part.length)
            self.handles.append(self._handle(inside, part.region))
        self.keys.append(key)
        self.counts.append(len(parts))

    def _handle(self, inside: ExitStack, region: Region) -> int:
        if region not in self.regions:
            if region._parent is not self._engine:
                raise Invalid("a segment's region belongs to another engine than the cache")
            self.regions[region] = region._enter()
            inside.callback(region._leave)
        return self.regions[region]


class Session(NamedTuple):
    """The session with the node, as it is in force."""

    depth: int
    sg_endpoints: int
    data_depth: int
    transport: str
    put_mode: str
    get_mode: str
    node_version: str


class Lane(NamedTuple):
    """What went over one lane of a rail; of ctrl: messages."""

    ops: int
    completions: int
    bytes: int
    errors_rail: int
    errors_peer: int
    errors_item: int
    errors_batch: int


class Rail(NamedTuple):
    """A rail and what went over it since the cache was created."""

    name: str
    peer: str
    state: str
    ups: int
    fails: int
    retries: int
    registrations: int
    ctrl: Lane
    data: Lane
    sg: Lane


def _python(value: Any) -> Any:
    if isinstance(value, LaneStat):
        return Lane(*(getattr(value, name) for name in Lane._fields))
    return value.decode() if isinstance(value, bytes) else value


def milliseconds(timeout: float | None) -> int:
    """For the library: at least 1; 0 (KVLANE_TIMEOUT) for None."""
    if timeout is None:
        return 0
    if not isinstance(timeout, numbers.Real):
        raise TypeError(f"timeout is a {type(timeout).__name__}; accepted: a number of seconds, or None")
    if not 0 < timeout < math.inf:
        raise Invalid(f"timeout is {timeout}; accepted: seconds over 0, or None for KVLANE_TIMEOUT")
    return max(1, min(int(timeout * 1000 + 0.999), 1 << 40))


def _key(key: Key) -> bytes:
    if isinstance(key, str):
        key = key.encode()
    if not isinstance(key, bytes):
        raise TypeError(f"a key is bytes or str, not {type(key).__name__}")
    return key


def _keys(keys: Iterable[Key]) -> list[bytes]:
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"a list of keys is wanted, not one {type(keys).__name__}: use [key]")
    return [_key(key) for key in keys]


class Cache(Handle):
    """Connects in the background; a batch waits for that inside its deadline."""

    def __init__(self, engine: Engine, node: str) -> None:
        pointer = c_void_p()
        check(engine._call(lib.kvl_cache_create, node.encode(), byref(pointer)))
        super().__init__(pointer.value or 0, engine)
        self._engine = engine

    def connect(self, timeout: float | None = None) -> None:
        """Waits until connected, or raises the reason."""
        check(self._call(lib.kvl_cache_connect, milliseconds(timeout)))

    def put(self, items: Items, timeout: float | None = None) -> None:
        """Stores all items, or raises what happened to the worst. No items: nothing happens."""
        self._move(Op.PUT, items, timeout)

    def get(self, items: Items, timeout: float | None = None) -> None:
        """Fills all buffers, or raises. The buffers' sum must be the value's length."""
        self._move(Op.GET, items, timeout)

    def exists(self, keys: Iterable[Key], timeout: float | None = None) -> list[bool]:
        return self._found(Op.EXISTS, keys, timeout)

    def remove(self, keys: Iterable[Key], timeout: float | None = None) -> list[bool]:
        """Forgets the keys; False where there was none."""
        return self._found(Op.REMOVE, keys, timeout)

    def submit(
        self, op: Op, items: Items | Iterable[Key], timeout: float | None = None, stream: Any = None
    ) -> Batch:
        """Starts a batch: `batch.wait()` or `await batch`, then look at it. Exists and remove take keys.

        `stream`, for values in a GPU's memory: what is in that stream now (a torch.cuda.Stream, or its number) is
        done before the memory is touched.
        """
        if op in (Op.EXISTS, Op.REMOVE):
            keys = _keys(items)  # type: ignore[arg-type]
            return self.submit_columns(op, Columns(keys, (), (), [0] * len(keys)), timeout, None, stream)
        pairs = items.items() if isinstance(items, Mapping) else items
        rows = _Rows(self._engine)
        with ExitStack() as inside:  # a region that is being closed waits until it was submitted
            for key, value in pairs:  # type: ignore[misc]
                rows.add(inside, _key(key), value, op == Op.GET)
            return self.submit_columns(op, rows.columns, timeout, list(rows.regions), stream)

    def submit_columns(
        self, op: Op, columns: Columns, timeout: float | None = None, keep: Any = None, stream: Any = None
    ) -> Batch:
        """As submit(), from columns; `keep` is held until the batch is quiet."""
        keys, addresses, lengths, counts, regions = columns
        if not 0 < len(keys) <= BATCH_MAX:
            raise LimitExceeded(f"a batch of {len(keys)} items; accepted: 1 to {BATCH_MAX}")
        if len(counts) != len(keys) or not sum(counts) == len(addresses) == len(lengths):
            raise Invalid(
                f"{len(keys)} keys, {len(counts)} counts of {sum(counts)} segments, "
                f"{len(addresses)} addresses, {len(lengths)} lengths: they do not fit"
            )
        if any(not 0 < len(key) <= KEY_MAX for key in keys):
            raise Invalid(f"a key has 1 to {KEY_MAX} bytes: {next(k for k in keys if not 0 < len(k) <= KEY_MAX)!r}")
        if op in (Op.PUT, Op.GET) and not (min(counts) > 0 and max(counts) <= SEGMENTS_MAX):
            raise Invalid(f"an item has {min(counts)} to {max(counts)} segments; accepted: 1 to {SEGMENTS_MAX}")
        segments = _table(3, addresses, lengths, regions)
        text = b"".join(keys)
        key_base, segment_base = (_address(text), segments.buffer_info()[0])
        starts = accumulate((len(key) for key in keys[:-1]), initial=key_base)
        firsts = accumulate((24 * count for count in counts[:-1]), initial=segment_base)
        items = _table(4, list(starts), [len(key) for key in keys], list(firsts), counts)
        number = None if stream is None else getattr(stream, "cuda_stream", stream) or 1  # 1: CUDA's legacy stream
        params, pointer = BatchParams(milliseconds(timeout), None, None, number), c_void_p()
        check(
            self._call(
                lib.kvl_cache_submit, op, items.buffer_info()[0], len(keys), byref(params), byref(pointer)
            ),
            Status.INPROGRESS,
        )
        return Batch(self._engine, pointer.value or 0, len(keys), keep)

    def stat(self, timeout: float | None = None) -> dict[str, int]:
        """What the node says of itself."""
        stat = NodeStat()
        check(self._call(lib.kvl_cache_stat, milliseconds(timeout), byref(stat)))
        return {name: getattr(stat, name) for name, *_ in NodeStat._fields_}

    def session(self) -> Session:
        """The session as it is; Unreachable if there is none."""
        info = SessionInfo()
        check(self._call(lib.kvl_cache_session, byref(info)))
        return Session(*(_python(getattr(info, name)) for name in Session._fields))

    def rails(self) -> list[Rail]:
        """Each rail's state and counters; also while there is no session."""
        stats, count = (RailStat * RAILS_MAX)(), c_size_t(RAILS_MAX)
        check(self._call(lib.kvl_cache_rails, stats, byref(count)))
        return [Rail(*(_python(getattr(stat, name)) for name in Rail._fields)) for stat in stats[: count.value]]

    def _move(self, op: Op, items: Items, timeout: float | None) -> None:
        if not isinstance(items, Mapping):
            items = list(items)
        milliseconds(timeout)  # a wrong one is wrong without items, too
        if items:
            self.finish(self.submit(op, items, timeout)).check()

    def _found(self, op: Op, keys: Iterable[Key], timeout: float | None) -> list[bool]:
        keys = _keys(keys)
        milliseconds(timeout)
        if not keys:
            return []
        batch = self.finish(self.submit(op, keys, timeout))
        statuses = batch.statuses
        for status in statuses:
            if status not in (Status.OK, Status.NOT_FOUND):
                raise batch.error or error(status, batch.cause)
        return [status == Status.OK for status in statuses]

    @staticmethod
    def finish(batch: Batch) -> Batch:
        """Waits; if that is interrupted (Ctrl-C), cancels and waits until it is quiet."""
        try:
            batch.wait()
        except BaseException:
            batch.cancel()
            batch.wait()
            raise
        return batch

    def _destroy(self, pointer: int) -> None:
        lib.kvl_cache_destroy(pointer)


def _table(width: int, *columns: Sequence[int] | None) -> array[int]:
    """The columns as rows of 64-bit words: an array of the C structure."""
    rows = len(columns[0] or ())
    table = array("Q", bytes(8 * width * rows))
    for i, column in enumerate(columns):
        if column is not None:
            table[i::width] = array("Q", column)
    return table


def _address(text: bytes) -> int:
    view = View(text, writable=False)
    return view.address
