# SPDX-License-Identifier: BSD-3-Clause
"""A connector's engine and cache, and what their batches teach about the node and its pages."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from ..batch import Batch
from ..cache import Cache, Op, Session
from ..engine import Engine
from ..errors import Error, ItemError, PeerError, Status, TimedOut
from .health import Health, Lost
from .options import Options

logger = logging.getLogger(__name__)
# a get ended so, and will again: the bytes came and are not what they should be, or could not come
_SPOILED = (Status.OK, Status.LENGTH, Status.CHECKSUM)


class Client:
    """Opened at once, connected or not: without its node a connector starts all the same.

    ranks: who in the engine says which process of its host this is (see Options.engine_settings).
    Raises kvlane.Error or ValueError for what is wrong with the options.
    """

    def __init__(self, options: Options, ranks: Mapping[str, int | None] | None = None) -> None:
        self.options = options
        self.engine = Engine(options.engine_settings(ranks or {}), address=options.node)
        try:
            self.cache = Cache(self.engine, options.node)
        except BaseException:
            self.engine.close()
            raise
        self.health = Health(self.cache, options.node, options.exists_timeout)
        self.lost = Lost(options.negative_ttl)
        self._said: dict[str, float] = {}
        try:
            self.cache.connect(options.connect_timeout)
            logger.info("kvlane: %s, %s", options.node, self.cache.session())
        except Error as why:
            self.health.fell()
            logger.warning("kvlane: %s; until it is there every page is a miss", why)

    def close(self) -> None:
        self.health.close()
        self.engine.close()

    def session(self) -> Session:
        """What is in force with the node: depth, endpoints, transports."""
        return self.cache.session()

    def settle(self, batch: Batch) -> Batch:
        """Of a complete batch: complains of what failed but single items; a node that does not answer is down."""
        why = batch.error
        if why is not None and not isinstance(why, ItemError):
            self.complain("batch", why)
            if isinstance(why, (PeerError, TimedOut)):
                self.health.fell()
        return batch

    def learn(self, op: Op, keys: Iterable[bytes], good: Sequence[bool], batch: Batch) -> None:
        """A page that is there and cannot be read counts as absent for a while; a put makes up for it."""
        if op == Op.PUT:
            self.lost.forget(key for key, ok in zip(keys, good) if ok)
        elif not all(good):
            bad = zip(keys, good, batch.statuses)
            self.lost.remember([key for key, ok, status in bad if not ok and status in _SPOILED])

    def complain(self, what: str, why: Exception) -> None:
        """Each kind of trouble once in ten seconds."""
        kind, now = f"{what} {type(why).__name__}", time.monotonic()
        if now >= self._said.get(kind, 0):
            self._said[kind] = now + 10
            logger.warning("kvlane: %s: %s: %s", what, type(why).__name__, why)
