# SPDX-License-Identifier: BSD-3-Clause
"""KvlaneL2Adapter: LMCache's own adapter for native connectors around ours, which is shown the L1 arena."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlane.connector import Options
from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import NativeConnectorL2Adapter

from .connector import KvlaneConnector


@dataclass(frozen=True)
class AdapterOptions(Options):
    max_capacity_gb: float = 0.0
    """What LMCache may store before it deletes; 0: the node alone decides what goes."""


class KvlaneL2Adapter(NativeConnectorL2Adapter):
    """For "type": "plugin". config: the adapter_params. l1_memory_desc: the arena of all of LMCache's objects."""

    def __init__(self, config: Mapping[str, Any], l1_memory_desc: Any = None) -> None:
        options = AdapterOptions.parse(config)
        if not options.max_capacity_gb >= 0:
            raise ValueError(f"kvlane: option max_capacity_gb is {options.max_capacity_gb}; wanted: GiB, or 0")
        self._connector = KvlaneConnector(options)
        try:
            if l1_memory_desc is not None:
                self._connector.register(l1_memory_desc.ptr, l1_memory_desc.size)
            super().__init__(self._connector, options.max_capacity_gb, type_name="kvlane")
        except BaseException:
            self._connector.close()
            raise

    def report_status(self) -> dict[str, Any]:
        """LMCache's, and `kvlane`: the node, whether it answers, and counts since the start.

        A node that is down costs misses; the adapter stays healthy.
        """
        return super().report_status() | {"kvlane": self._connector.status()}
