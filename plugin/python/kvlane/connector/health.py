# SPDX-License-Identifier: BSD-3-Clause
"""What a connector believes of its node: whether it answers, and which pages it cannot give."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence

from ..batch import Batch
from ..cache import Cache, Op
from ..errors import Error, Status

logger = logging.getLogger(__name__)
_LOST_MAX = 65536


class Health:
    """Whether the node answers.

    Once a batch found that it does not, no call waits for it any more: a question of its own is under way
    beside them, and its answer alone brings the node back. A connection says nothing: the kernel accepts
    one for a node that is stopped.
    """

    def __init__(self, cache: Cache, node: str, timeout: float) -> None:
        self._cache, self._node, self._timeout = cache, node, timeout
        self._lock = threading.Lock()
        self._down = False
        self._question: Batch | None = None

    def fell(self) -> None:
        self._down = True

    def up(self) -> bool:
        if not self._down:
            return True
        with self._lock:
            if self._down and (self._question is None or self._question.done):
                self._down = not self._answered()
                if self._down:
                    self._ask()
                else:
                    logger.warning("kvlane: %s is there again", self._node)
        return not self._down

    def close(self) -> None:
        with self._lock:
            self._down, self._question = True, None

    def _answered(self) -> bool:
        question, self._question = self._question, None
        return question is not None and question.status in (Status.OK, Status.NOT_FOUND)

    def _ask(self) -> None:
        try:
            self._question = self._cache.submit(Op.EXISTS, ["are you there"], self._timeout)
        except Error:  # known to be unreachable, or closed
            pass


class Lost:
    """Pages that are there and could not be read: absent for a while, so that nobody asks on and on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._until: dict[bytes, float] = {}

    def without(self, keys: Iterable[bytes]) -> list[bytes]:
        now = time.monotonic()
        return [key for key in keys if self._until.get(key, 0) < now]

    def remember(self, keys: Sequence[bytes]) -> None:
        until = time.monotonic() + self._seconds
        with self._lock:
            if len(self._until) + len(keys) > _LOST_MAX:
                self._until.clear()
            self._until.update(dict.fromkeys(keys, until))

    def forget(self, keys: Iterable[bytes]) -> None:
        if self._until:
            with self._lock:
                for key in keys:
                    self._until.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._until.clear()
