# SPDX-License-Identifier: BSD-3-Clause
"""KvlaneHiCache: SGLang's storage interface (v0, v1, v2) on a kvlane.Cache.

Three of SGLang's threads call at the same time. None of the calls that move pages raises: a failure is
logged and is a miss.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import kvlane
import torch
from kvlane import Op, Status
from kvlane.connector import Client
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolTransferResult

from . import options, prefix
from .keys import Keys
from .pages import TAG_BYTES, Page, Pool, Regions, Tags, order_of, reordered, tag
from .stats import Stats

KV = "kv"
_EXISTS_MAX = 65536  # keys of one batch
R = TypeVar("R")


def never_raises(fallback: Callable[..., R]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """What the method returns if it fails: fallback(*its arguments)."""

    def decorate(method: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(method)
        def guarded(self: KvlaneHiCache, *arguments: Any, **named: Any) -> R:
            try:
                return method(self, *arguments, **named)
            except Exception as why:
                self._client.complain(method.__name__, why)
                return fallback(*arguments, **named)

        return guarded

    return decorate


def _all_false(keys: Sequence[str], *_: Any, **__: Any) -> list[bool]:
    return [False] * len(keys or ())


def _no_pages(transfers: Sequence[Any], *_: Any, **__: Any) -> dict[Any, list[bool]]:
    return {t.name: [False] * len(t.keys or ()) for t in transfers or ()}


class KvlaneHiCache(HiCacheStorage):
    def __init__(self, storage_config: Any, kwargs: Any = None, **more: Any) -> None:
        extra = getattr(storage_config, "extra_config", None) or {}
        self._options = options.parse(extra)
        self._keys = Keys(storage_config)
        if self._keys.split > 1 and not extra.get("interface_v1"):
            raise ValueError('kvlane: "tp_lcm_size" needs "interface_v1": 1')
        self._client = Client(self._options, _ranks(storage_config))
        self._cache = self._client.cache
        self._regions = Regions(self._client.engine)
        self._pools: dict[str, Pool] = {}
        self.stats = Stats(getattr(storage_config, "enable_storage_metrics", False))

    # -- set-up
    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self._pools[KV] = Pool(mem_pool_host, KV, self._regions, self._keys.split)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        name = str(host_pool_name)
        self._pools[name] = Pool(host_pool, name, self._regions, self._keys.split if name == KV else 1)

    def on_host_pools_registered(self) -> None:
        pass

    def close(self) -> None:
        self._client.close()

    def clear(self) -> None:
        """A node is shared: its pages stay. What this process believes of them is forgotten."""
        self._client.lost.clear()

    def get_stats(self) -> Any:
        """SGLang's StorageMetrics, with `funnel` beside its own lists: counts of each pool."""
        return self.stats.take()

    def session(self) -> kvlane.Session:
        """What is in force with the node: depth, endpoints, transports."""
        return self._client.session()

    # -- exists
    @never_raises(lambda *_, **__: False)
    def exists(self, key: str) -> bool:
        return self._prefix([key]) == 1

    @never_raises(lambda *_, **__: 0)
    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        return self._prefix(keys)

    def _prefix(self, hashes: Sequence[str]) -> int:
        return prefix.leading(self._present([KV], hashes)[KV])

    @never_raises(lambda *_, **__: PoolTransferResult(0, {}))
    def batch_exists_v2(self, keys: list[str], pool_transfers: Any = None, extra_info: Any = None) -> Any:
        transfers = pool_transfers or []
        names = dict.fromkeys([KV, *(str(t.name) for t in transfers)])
        return prefix.result(KV, transfers, self._present(list(names), keys))

    def _present(self, names: list[str], hashes: Sequence[str]) -> dict[str, list[bool]]:
        """Of each pool, which pages there are: one question for all."""
        keys = {name: self._keys.of(self._pools[name], hashes) for name in names}
        ask = self._client.lost.without(dict.fromkeys(key for name in names for key in keys[name]))
        found: set[bytes] = set()
        if self._client.health.up():
            for start in range(0, len(ask), _EXISTS_MAX):
                part = ask[start : start + _EXISTS_MAX]
                columns = kvlane.Columns(part, (), (), [0] * len(part))
                batch = self._run(Op.EXISTS, columns, self._options.exists_timeout)
                found.update(key for key, status in zip(part, batch.statuses) if status == Status.OK)
        present = {}
        for name in names:
            present[name] = _whole([key in found for key in keys[name]], self._pools[name].split)
            self.stats.queried(name, len(hashes), sum(present[name]))
        return present

    # -- v1: pages in place
    @never_raises(_all_false)
    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move(Op.GET, self._pools[KV], keys, host_indices)

    @never_raises(_all_false)
    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        return self._move(Op.PUT, self._pools[KV], keys, host_indices)

    # -- v2: several pools
    @never_raises(_no_pages)
    def batch_get_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return self._move_pools(Op.GET, transfers)

    @never_raises(_no_pages)
    def batch_set_v2(self, transfers: list[Any], extra_info: Any = None) -> dict[Any, list[bool]]:
        return self._move_pools(Op.PUT, transfers)

    def _move_pools(self, op: Op, transfers: list[Any]) -> dict[Any, list[bool]]:
        results = {}
        for transfer in transfers:
            keys = transfer.keys or []
            try:
                results[transfer.name] = self._move(op, self._pools[str(transfer.name)], keys, transfer.host_indices)
            except Exception as why:  # of this pool alone
                self._client.complain(f"{op.name.lower()} of {transfer.name}", why)
                results[transfer.name] = [False] * len(keys)
        return results

    def _move(self, op: Op, pool: Pool, hashes: Sequence[str], indices: Any) -> list[bool]:
        if not hashes:
            return []
        if not pool.fits(len(hashes), indices):
            told = "none" if indices is None else str(len(indices))
            raise ValueError(f"{len(hashes)} pages of {pool.page_size}; indices: {told}")
        if not self._client.health.up():
            return [False] * len(hashes)
        if not pool.in_place:
            return self._move_flat(op, pool, hashes, indices[:: pool.page_size].tolist())
        places, keys = pool.pages(len(hashes), indices), self._keys.of(pool, hashes)
        start = time.monotonic()
        with self._regions.tags(len(keys)) as tags:
            good = self._move_places(op, pool, keys, places, tags)
        done = _whole(good, pool.split)
        size = sum(length for ok, page in zip(good, places) if ok for _, length in page)
        self.stats.moved(op, pool.name, len(hashes), sum(done), size, time.monotonic() - start)
        return done

    def _move_places(self, op: Op, pool: Pool, keys: list[bytes], places: list[Page], tags: Tags) -> list[bool]:
        """To or from a pool's memory, a value for each place."""
        if op == Op.PUT:
            tags.memory[:TAG_BYTES] = tag(pool.order)
        addresses: list[int] = []
        lengths: list[int] = []
        for i, page in enumerate(places):
            addresses += [address for address, _ in page]
            addresses.append(tags.region.address + (i * TAG_BYTES if op == Op.GET else 0))
            lengths += [length for _, length in page]
            lengths.append(TAG_BYTES)
        columns = kvlane.Columns(keys, addresses, lengths, [len(page) + 1 for page in places])
        timeout = self._options.get_timeout if op == Op.GET else self._options.put_timeout
        batch = self._run(op, columns, timeout, keep=(tags, pool))
        good = [status == Status.OK for status in batch.statuses]
        if op == Op.GET:
            for i, page in enumerate(places):
                good[i] = good[i] and pool.put_in_order(page, bytes(tags.memory[i * TAG_BYTES : (i + 1) * TAG_BYTES]))
        self._client.learn(op, keys, good, batch)
        return good

    # -- v0, and pools whose pages cannot be had in place: values of their own, by copy
    @never_raises(lambda *_, **__: None)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        return self._get_flat(self._pools[KV], [key], [target_location])[0]

    @never_raises(lambda keys, *_, **__: [None] * len(keys or ()))
    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> Any:
        return self._get_flat(self._pools[KV], keys, target_locations)

    @never_raises(lambda *_, **__: False)
    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return all(self._set_flat(self._pools[KV], [key], [value]))

    @never_raises(lambda *_, **__: False)
    def batch_set(
        self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None
    ) -> bool:
        return all(self._set_flat(self._pools[KV], keys, values))

    def _move_flat(self, op: Op, pool: Pool, hashes: Sequence[str], firsts: list[int]) -> list[bool]:
        host = pool.host
        if op == Op.PUT:
            return self._set_flat(pool, hashes, [host.get_data_page(i, flat=True) for i in firsts])
        pages = self._get_flat(pool, hashes, [host.get_dummy_flat_data_page() for _ in firsts])
        for first, page in zip(firsts, pages):
            if page is not None:
                host.set_from_flat_data_page(first, page)
        return [page is not None for page in pages]

    def _get_flat(self, pool: Pool, hashes: Sequence[str], targets: Sequence[Any]) -> list[Any]:
        if not hashes or not self._client.health.up():
            return [None] * len(hashes)
        keys = self._keys.of(pool, hashes)
        tags = [bytearray(TAG_BYTES) for _ in keys]
        items = [(key, [target, text]) for key, target, text in zip(keys, targets, tags, strict=True)]
        start = time.monotonic()
        batch = self._client.settle(self._cache.finish(self._cache.submit(Op.GET, items, self._options.get_timeout)))
        good = [
            status == Status.OK and _flat_in_order(pool, target, bytes(text))
            for status, target, text in zip(batch.statuses, targets, tags)
        ]
        self._client.learn(Op.GET, keys, good, batch)
        self.stats.moved(Op.GET, pool.name, len(keys), sum(good), _bytes(targets, good), time.monotonic() - start)
        return [target if ok else None for target, ok in zip(targets, good)]

    def _set_flat(self, pool: Pool, hashes: Sequence[str], values: Sequence[Any]) -> list[bool]:
        if not hashes or not self._client.health.up():
            return [False] * len(hashes)
        keys, text = self._keys.of(pool, hashes), tag(pool.flat_order)
        values = [value.contiguous() for value in values]
        items = [(key, [value, text]) for key, value in zip(keys, values, strict=True)]
        start = time.monotonic()
        batch = self._client.settle(self._cache.finish(self._cache.submit(Op.PUT, items, self._options.put_timeout)))
        good = [status == Status.OK for status in batch.statuses]
        self._client.learn(Op.PUT, keys, good, batch)
        self.stats.moved(Op.PUT, pool.name, len(keys), sum(good), _bytes(values, good), time.monotonic() - start)
        return good

    def _run(self, op: Op, columns: kvlane.Columns, timeout: float, keep: Any = None) -> kvlane.Batch:
        return self._client.settle(self._cache.finish(self._cache.submit_columns(op, columns, timeout, keep)))


def _whole(parts: Sequence[bool], split: int) -> list[bool]:
    return [all(parts[i : i + split]) for i in range(0, len(parts), split)]


def _bytes(tensors: Sequence[Any], good: Sequence[bool]) -> int:
    return sum(t.numel() * t.element_size() for t, ok in zip(tensors, good) if ok)


def _flat_in_order(pool: Pool, target: Any, text: bytes) -> bool:
    """As Pool.put_in_order(), of a flat page."""
    have = order_of(text)
    if have is None or have == pool.flat_order:
        return have is not None
    data = target.view(torch.uint8).numpy().tobytes()
    fixed = reordered(data, pool.geometry.dims, have, pool.flat_order)
    if fixed:
        target.view(torch.uint8).copy_(torch.frombuffer(bytearray(fixed), dtype=torch.uint8))
    return bool(fixed)


def _ranks(config: Any) -> dict[str, int | None]:
    """Which process of its host this is, as the engine says; never tp_rank, which is 0 on every rank
    under data-parallel attention."""
    try:
        return {"world_group.local_rank": int(_world_group().local_rank)}
    except Exception:  # none in this process
        return {"pcp_rank": getattr(config, "pcp_rank", None)}


def _world_group() -> Any:
    try:
        from sglang.srt.runtime_context import get_parallel
    except ImportError:  # before 0.5.23
        from sglang.srt.distributed.parallel_state import get_world_group

        return get_world_group()
    return get_parallel().world_group
