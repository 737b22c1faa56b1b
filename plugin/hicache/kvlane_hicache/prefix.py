# SPDX-License-Identifier: BSD-3-Clause
"""From which pages there are of each pool to how long a prefix can be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang.srt.mem_cache.hicache_storage import PoolTransferResult


def leading(flags: Sequence[bool]) -> int:
    return next((i for i, ok in enumerate(flags) if not ok), len(flags))


def result(kv: str, transfers: Sequence[Any], present: dict[str, list[bool]]) -> PoolTransferResult:
    """`present`: of the pool `kv` and of each transfer's, which pages of the chain there are."""
    kv_pages = leading(present[kv])
    hits: dict[Any, int] = {kv: kv_pages} if kv_pages else {}
    good = set(range(1, kv_pages + 1))
    for transfer in transfers:
        boundary, lengths = _policy(transfer, present[str(transfer.name)], kv_pages)
        if boundary:
            hits[transfer.name] = boundary
        if lengths is not None:
            good &= lengths
    restorable = sorted(good)
    pages = restorable[-1] if restorable else 0
    try:
        return PoolTransferResult(pages, hits, restorable)
    except TypeError:  # before 0.5.23
        return PoolTransferResult(pages, hits)


def _policy(transfer: Any, present: Sequence[bool], kv_pages: int) -> tuple[int, set[int] | None]:
    """How far a side pool reaches, and which lengths of the prefix it allows (None: any)."""
    policy = getattr(transfer.hit_policy, "value", transfer.hit_policy)
    if policy == "all_pages":
        boundary = min(leading(present), kv_pages)
        return boundary, set(range(1, boundary + 1))
    if policy == "trailing_pages":
        window = max(1, len(transfer.keys or ()))
        lengths = {n for n in range(1, kv_pages + 1) if all(present[max(0, n - window) : n])}
        return max(lengths, default=0), lengths
    if policy == "block_groups":  # whole groups from the start count; the KV prefix does not depend on it
        group = max(1, getattr(transfer, "group_pages", 0))
        return min(leading(present), kv_pages) // group * group, None
    raise ValueError(f"hit policy {policy}")
