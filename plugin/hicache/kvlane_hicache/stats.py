# SPDX-License-Identifier: BSD-3-Clause
"""Counts of what was asked, found, read and written, for each pool; and SGLang's own metrics of it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from kvlane import Op
from kvlane.connector import Funnel


def _no_samples() -> dict[Op, deque[tuple[int, float]]]:
    """Pages and GB/s of each batch; the newest, where nobody asks for them."""
    return {Op.GET: deque(maxlen=4096), Op.PUT: deque(maxlen=4096)}


class Stats:
    def __init__(self, metrics: bool) -> None:
        self._funnel = Funnel()
        self._lock = threading.Lock()
        self._metrics = metrics
        self._samples = _no_samples()

    def queried(self, pool: str, pages: int, hit: int) -> None:
        self._funnel.queried(pool, pages, hit)

    def moved(self, op: Op, pool: str, pages: int, ok: int, size: int, seconds: float) -> None:
        self._funnel.moved(op, pool, pages, ok, size)
        if self._metrics and ok:
            with self._lock:
                self._samples[op].append((ok, size / 1e9 / max(seconds, 1e-9)))

    @property
    def funnel(self) -> dict[str, dict[str, int]]:
        return self._funnel.rows()

    def take(self) -> Any:
        """SGLang's StorageMetrics of the time since the last call; `funnel` since the start."""
        from sglang.srt.observability.metrics_collector import StorageMetrics

        with self._lock:
            samples, self._samples = self._samples, _no_samples()
        metrics = StorageMetrics()
        metrics.prefetch_pgs += [pages for pages, _ in samples[Op.GET]]
        metrics.prefetch_bandwidth += [rate for _, rate in samples[Op.GET]]
        metrics.backup_pgs += [pages for pages, _ in samples[Op.PUT]]
        metrics.backup_bandwidth += [rate for _, rate in samples[Op.PUT]]
        metrics.funnel = self.funnel
        return metrics
