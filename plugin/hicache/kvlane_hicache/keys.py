# SPDX-License-Identifier: BSD-3-Clause
"""Names of pages. A key says which bytes a value holds: the model, the component, the shape of the page,
which layers and heads of it, and the hash of its tokens. Never their order, nor a place."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .pages import Pool

_MODEL_MAX = 96  # longer names would leave too little of a key's 255 bytes


class Keys:
    def __init__(self, config: Any) -> None:
        model = str(config.model_name or "")
        if len(model.encode()) > _MODEL_MAX:
            model = hashlib.blake2s(model.encode(), digest_size=16).hexdigest()
        self._model = model
        self._replicated = bool(config.is_mla_model)
        self._tp_rank, self._tp_size = config.tp_rank, config.tp_size
        self._stage = f"p{config.pp_rank}.{config.pp_size}"
        for letter, rank, size in (("c", "attn_cp_rank", "attn_cp_size"), ("d", "dcp_rank", "dcp_size")):
            if getattr(config, size, 1) > 1:
                self._stage += f"{letter}{getattr(config, rank)}.{getattr(config, size)}"
        self.split = 1
        """Parts of a page, of a value each: its heads, for readers among which more processes share them."""
        if getattr(config, "should_split_heads", False):
            self.split = int(config.tp_lcm_size) // self._tp_size

    def of(self, pool: Pool, hashes: Sequence[str]) -> list[bytes]:
        """One for each part of each page."""
        front = f"sglang/{self._model}/{pool.name}/{pool.geometry.identity}/{self._stage}{pool.geometry.layers}"
        if self._replicated and pool.name != "mamba":  # each rank holds all of it
            places = [front]
        else:
            size = self._tp_size * pool.split
            places = [f"{front}t{self._tp_rank * pool.split + part}.{size}" for part in range(pool.split)]
        return [f"{place}/{text}".encode() for text in hashes for place in places]
