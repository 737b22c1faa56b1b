# SPDX-License-Identifier: BSD-3-Clause
"""The whole of SGLang's host side on CPU tensors: its radix cache, pool assembler, controller and factory, with
kvlane behind. Only the copies between "device" and host pool, which are GPU kernels, are written here.

usage: sglang_tree.py NODE KIND LAYOUT   an engine that writes TOKENS tokens through, and ends
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections.abc import Callable
from typing import Any

import sglang_cpu as cpu
import torch
from sglang_cpu import LAYERS, PAGE, SHAPES

from sglang.srt.mem_cache.allocator import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

PAGES = 300
TOKENS = PAGES * PAGE
SEQUENCE = array("q", range(1000, 1000 + TOKENS))


def _layer_rows(host: Any, layer: int) -> list[Any]:
    """Views of a layer in the host pool, of K and of V or of both in one; first axis: tokens."""
    kind = "mha" if isinstance(host, cpu.MHATokenToKVPoolHost) else "mla"
    axes = SHAPES[kind, host.layout]
    view = host.kv_buffer.permute([axes.index(a) for a in ("clThd" if kind == "mha" else "lThd")])
    return [view[0, layer], view[1, layer]] if kind == "mha" else [view[layer]]


def _device_rows(device: Any, layer: int) -> list[Any]:
    if hasattr(device, "k_buffer"):
        return [device.k_buffer[layer], device.v_buffer[layer]]
    return [device.kv_buffer[layer]]


def _backup(self: Any, device: Any, host_indices: Any, device_indices: Any, io_backend: str) -> None:
    for layer in range(LAYERS):
        for to, source in zip(_layer_rows(self, layer), _device_rows(device, layer)):
            to[host_indices] = source[device_indices]


def _load(self: Any, device: Any, host_indices: Any, device_indices: Any, layer: int, *_: Any, **__: Any) -> None:
    for to, source in zip(_device_rows(device, layer), _layer_rows(self, layer)):
        to[device_indices] = source[host_indices]


for _pool in (cpu.MHATokenToKVPoolHost, cpu.MLATokenToKVPoolHost):
    _pool.backup_from_device_all_layer, _pool.load_to_device_per_layer = _backup, _load


class Engine:
    """To be used inside of sglang_cpu.parallel()."""

    def __init__(self, node: str, kind: str, layout: str) -> None:
        extra = json.dumps(cpu.EXTRA | cpu.PATIENT | {"node": node, "prefetch_threshold": 1})
        values: dict[str, Any] = dict(hicache_write_policy="write_through", hicache_storage_backend="dynamic")
        values |= dict(hicache_storage_backend_extra_config=extra, hicache_storage_prefetch_policy="wait_complete")
        values |= dict(hicache_io_backend="kernel", hicache_mem_layout=layout, hicache_ratio=2.0)
        values |= dict(enable_hierarchical_cache=True, page_size=PAGE, device="cpu")
        arguments = ServerArgs(model_path="dummy", **values)
        set_global_server_args_for_scheduler(arguments)
        self.device = cpu.device_pool(kind, 2 * TOKENS)
        self.allocator = TokenToKVPoolAllocator(
            size=2 * TOKENS, dtype=torch.float16, device="cpu", kvcache=self.device, need_sort=False
        )
        requests = ReqToTokenPool(size=8, max_context_len=2 * TOKENS, device="cpu", enable_memory_saver=False)
        params = CacheInitParams(
            req_to_token_pool=requests,
            token_to_kv_pool_allocator=self.allocator,
            page_size=PAGE,
            disable=False,
            tree_components=(ComponentType.FULL,),
        )
        self.tree = UnifiedRadixCache(params=params)
        self.tree.init_hicache(arguments, params)
        self.backend = self.tree.cache_controller.storage_backend

    def bytes_at(self, indices: Any) -> list[Any]:
        return [rows[indices] for layer in range(LAYERS) for rows in _device_rows(self.device, layer)]

    def compute(self, seed: int) -> Any:
        """Stands for a prefill of SEQUENCE; where its KV is."""
        indices = self.allocator.alloc(TOKENS)
        generator = torch.Generator().manual_seed(seed)
        for layer in range(LAYERS):
            for rows in _device_rows(self.device, layer):
                rows[indices] = torch.randn(TOKENS, *rows.shape[1:], generator=generator).half()
        return indices

    def write_through(self, indices: Any) -> None:
        self.tree.insert(InsertParams(key=RadixKey(SEQUENCE), value=indices, priority=0))
        self._until(lambda: self.backend.stats.funnel.get("kv", {}).get("put_ok") == PAGES)

    def read_back(self) -> Any:
        """Prefetches SEQUENCE from the node and loads it to the device; where its KV is now."""
        handle = CacheRequestHandle("request", 0)
        self.tree.prefetch_from_storage(handle, self.tree.root_node_handle(), SEQUENCE, None, None)
        self._until(lambda: self.tree.check_prefetch_progress(handle))
        match = self.tree.match_prefix(MatchPrefixParams(key=RadixKey(SEQUENCE)))
        self.tree.load_back_threshold = 0
        self.tree.load_back(getattr(match, "last_host_node", None) or match.best_match_node, req=None)
        self.tree.ready_to_load_host_cache()
        self.tree.loading_check()
        match = self.tree.match_prefix(MatchPrefixParams(key=RadixKey(SEQUENCE)))
        return self.tree.path_device_indices(match.last_device_node)

    def close(self) -> None:
        self.tree.cache_controller.detach_storage_backend()

    def _until(self, condition: Callable[[], bool]) -> None:
        """SGLang's scheduler looks at its queues between batches; it has nothing to wait on."""
        end = time.monotonic() + 120
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("SGLang's threads did not get there")
            self.tree.check_hicache_events()
            time.sleep(0.005)


def main() -> None:
    with cpu.parallel():
        engine = Engine(*sys.argv[1:])
        engine.write_through(engine.compute(seed=7))
        engine.close()


if __name__ == "__main__":
    main()
