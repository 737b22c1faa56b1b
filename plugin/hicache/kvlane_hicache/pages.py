# SPDX-License-Identifier: BSD-3-Clause
"""SGLang's host pools as kvlane sees them: regions, pages made of segments, and the order of their bytes.

A page's value is its segments as the pool lists them, one after the other, and a tag of 32 bytes that
names the order of the bytes in it. Whoever gets it under another layout reads the bytes into place as they
are and puts them in order there: the same layout costs no copy, another one a copy in memory.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import kvlane
import numpy as np
import torch

TAG_BYTES = 32
_MAGIC = b"kvlane1 "

# c: K and V, l: layer, t: token, h: head, d: the bytes of a head; outermost first, in the order in
# which get_page_buffer_meta() lists a page
SEGMENT_ORDER = {
    "layer_first": "lcthd",
    "page_first": "ctlhd",
    "page_first_direct": "clthd",
    "page_head": "chtld",
}
# the same for get_data_page(flat=True)
FLAT_ORDER = SEGMENT_ORDER | {"layer_first": "clthd"}


class Geometry:
    """Which bytes a page holds, whatever their order.

    Of the pools of plain MHA and MLA the order is known too, so their pages can be had under another one.
    """

    def __init__(self, host: Any, split: int) -> None:
        self.known = False
        self.dims: dict[str, int] = {}
        self.dtype = str(getattr(host, "dtype", ""))
        kind = type(host).__name__
        if kind in ("MHATokenToKVPoolHost", "MLATokenToKVPoolHost") and host.layout in SEGMENT_ORDER:
            size = host.dtype.itemsize
            self.dims = (
                {"c": 2, "h": host.head_num // split, "d": host.head_dim * size}
                if kind.startswith("MHA")
                else {"c": 1, "h": 1, "d": host.kv_cache_dim * size}
            ) | {"l": host.layer_num, "t": host.page_size}
            self.known = True
        self.layers = ""
        if hasattr(host, "start_layer"):
            self.layers = f"l{host.start_layer}-{host.end_layer}"
        more = (str(getattr(host, name, "")) for name in ("layout", "size_per_token", "page_size"))
        self._name = " ".join([kind, *more])

    def order(self, table: dict[str, str], layout: str) -> str:
        """As the tag names it: axes of one element do not count; a pool we do not know is its own."""
        if self.known:
            return "".join(axis for axis in table[layout] if self.dims[axis] > 1)
        return "raw " + _digest(self._name)

    @property
    def identity(self) -> str:
        """For the key: pages of another shape, or in no known order, are other pages."""
        if not self.known:
            return _digest(self._name + self.dtype)
        return _digest(f"{sorted(self.dims.items())} {self.dtype}")


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()


def tag(order: str) -> bytes:
    return _MAGIC + order.encode().ljust(TAG_BYTES - len(_MAGIC))


def order_of(text: bytes) -> str | None:
    return text[len(_MAGIC) :].decode(errors="replace").rstrip() if text.startswith(_MAGIC) else None


def reordered(data: bytes, dims: dict[str, int], have: str, want: str) -> bytes | None:
    """`data` with its axes in another order; None if the two do not fit."""
    if sorted(have) != sorted(want) or not set(have) <= set(dims) or len(data) != _size(have, dims):
        return None
    array = np.frombuffer(data, np.uint8).reshape([dims[axis] for axis in have])
    return array.transpose([have.index(axis) for axis in want]).tobytes()


def _size(axes: str, dims: dict[str, int]) -> int:
    return math.prod(dims[axis] for axis in axes)


Page = list[tuple[int, int]]
"""Addresses and lengths."""


def gather(page: Page) -> bytes:
    return b"".join(ctypes.string_at(address, length) for address, length in page)


def scatter(data: bytes, page: Page) -> None:
    at = 0
    for address, length in page:
        ctypes.memmove(address, data[at : at + length], length)
        at += length


class Tags(NamedTuple):
    memory: bytearray
    region: kvlane.Region


class Regions:
    """Every storage of the pools, registered once; and small registered pieces for the tags."""

    def __init__(self, engine: kvlane.Engine) -> None:
        self._engine = engine
        self._storages: dict[int, kvlane.Region] = {}
        self._free: list[Tags] = []
        self._lock = threading.Lock()

    def add(self, host: Any) -> None:
        for tensor in _tensors(host):
            storage = tensor.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in self._storages:
                whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                self._storages[storage.data_ptr()] = self._engine.register(whole)

    @contextmanager
    def tags(self, count: int) -> Iterator[Tags]:
        """Memory for `count` tags. Must be quiet again at the end."""
        with self._lock:
            found = next((tags for tags in self._free if len(tags.memory) >= count * TAG_BYTES), None)
            if found:
                self._free.remove(found)
        if found is None:
            memory = bytearray(TAG_BYTES * max(count, 256))
            found = Tags(memory, self._engine.register(memory))
        try:
            yield found
        finally:
            with self._lock:
                self._free.append(found)


def _tensors(host: Any) -> Iterator[Any]:
    """A pool's buffers, under the names that SGLang's pools give them."""
    found = [getattr(host, name, None) for name in ("kv_buffer", "k_buffer", "v_buffer", "index_k_buffer")]
    found.append(getattr(host, "index_k_scale_buffer", None))
    if hasattr(host, "get_hybrid_pool_buffer"):
        found.append(host.get_hybrid_pool_buffer())
    for entry in found:
        for tensor in entry if isinstance(entry, (list, tuple)) else (entry,):
            if hasattr(tensor, "untyped_storage"):
                yield tensor


def _lists_pages(host: Any, page_size: int) -> bool:
    """Some pools have no list of segments under some layouts: their pages are moved by copy."""
    try:
        host.get_page_buffer_meta(torch.arange(page_size))
    except (NotImplementedError, ValueError):
        return False
    return True


class Pool:
    """A host pool and the component of a page that it holds."""

    def __init__(self, host: Any, name: str, regions: Regions, split: int = 1) -> None:
        while hasattr(host, "anchor_entry"):  # a group: its anchor holds the pages
            host = host.anchor_entry.host_pool
        self.name, self.host, self.split = name, host, split
        self.page_size = int(getattr(host, "page_size", 1) or 1)
        self.geometry = Geometry(host, split)
        layout = getattr(host, "layout", "")
        self.order = self.geometry.order(SEGMENT_ORDER, layout)
        self.flat_order = self.geometry.order(FLAT_ORDER, layout)
        # SGLang's LogicalHostPool: pages without bytes. Where bytes are not found it is another matter.
        self.logical = getattr(host, "size_per_token", None) == 0
        if not self.logical and next(_tensors(host), None) is None:
            raise ValueError(f"kvlane: pool {name}: no memory found in a {type(host).__name__}")
        self.in_place = self.logical or _lists_pages(host, self.page_size)
        regions.add(host)

    def fits(self, count: int, indices: Any) -> bool:
        return self.logical or (indices is not None and len(indices) == count * self.page_size)

    def pages(self, count: int, indices: Any) -> list[Page]:
        """`count` pages of `split` parts each."""
        if self.logical:  # nothing to move: the tag alone marks the page
            return [[] for _ in range(count)]
        addresses, lengths = self.host.get_page_buffer_meta(indices)
        per = len(addresses) // count
        places = list(zip(addresses, lengths))
        return [
            [(a + part * (n // self.split), n // self.split) for a, n in places[i * per : (i + 1) * per]]
            for i in range(count)
            for part in range(self.split)
        ]

    def put_in_order(self, page: Page, text: bytes) -> bool:
        """After a get: the tag said `text`. False if the bytes cannot be what this pool wants."""
        have = order_of(text)
        if have == self.order:
            return True
        if have is None:
            return False
        data = reordered(gather(page), self.geometry.dims, have, self.order)
        if data is not None:
            scatter(data, page)
        return data is not None
