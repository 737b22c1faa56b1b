# SPDX-License-Identifier: BSD-3-Clause
"""Counts of what was asked, found, read and written, since the start."""

from __future__ import annotations

import threading

from ..cache import Op


class Funnel:
    """A row for each pool of pages: asked for, of these found; read or written, of these whole, their bytes."""

    FIELDS = ("queried", "hit", "get_pages", "get_ok", "get_bytes", "put_pages", "put_ok", "put_bytes")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[str, dict[str, int]] = {}

    def _add(self, pool: str, **values: int) -> None:
        with self._lock:
            row = self._pools.setdefault(pool, dict.fromkeys(self.FIELDS, 0))
            for name, value in values.items():
                row[name] += value

    def queried(self, pool: str, pages: int, hit: int) -> None:
        self._add(pool, queried=pages, hit=hit)

    def moved(self, op: Op, pool: str, pages: int, ok: int, size: int) -> None:
        verb = op.name.lower()
        self._add(pool, **{f"{verb}_pages": pages, f"{verb}_ok": ok, f"{verb}_bytes": size})

    def rows(self) -> dict[str, dict[str, int]]:
        """A copy."""
        with self._lock:
            return {pool: dict(row) for pool, row in self._pools.items()}
