# SPDX-License-Identifier: BSD-3-Clause
"""SGLang's real HiCache classes on a machine without a GPU: import this before anything of sglang.

A triton that does nothing stands in for the one that is not installed; and helpers make real pools and
controllers of a toy model.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import os
import sys
import threading
import time
import types
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parents[1] / "plugin" / "hicache")]

import support  # noqa: E402, F401  (finds kvlane)

os.environ["HF_HUB_OFFLINE"] = "1"  # there is no model


class Hollow(types.ModuleType):
    """A module in which every name can be had: constants None, classes empty, functions hollow modules
    that also work as decorators."""

    __version__ = "3.9.0"
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.isupper():
            value: Any = None
        elif name[0].isupper():
            value = type(name, (), {"__init__": lambda *_, **__: None})
        else:
            value = sys.modules[f"{self.__name__}.{name}"] = Hollow(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        plain = len(arguments) == 1 and callable(arguments[0]) and not named
        return arguments[0] if plain else (lambda function: function)


class HollowTriton(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == "triton" or name.startswith("triton."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        return Hollow(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


sys.meta_path.insert(0, HollowTriton())
warnings.filterwarnings("ignore")
import msgspec  # noqa: E402
import torch  # noqa: E402

torch.compile = lambda model=None, **_: model if model is not None else (lambda function: function)  # type: ignore
logging.getLogger("sglang").setLevel(logging.ERROR)

from sglang.srt.managers.cache_controller import HiCacheController  # noqa: E402
from sglang.srt.mem_cache import memory_pool  # noqa: E402
from sglang.srt.mem_cache.device_pool_info import MLASplitBuffers  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig, PoolName  # noqa: E402
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController  # noqa: E402
from sglang.srt.mem_cache.pool_host import HostPoolGroup, PoolEntry, base, common  # noqa: E402
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKOnlyPoolHost, MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost  # noqa: E402
from sglang.srt.runtime_context import get_parallel  # noqa: E402

common._cuda_host_register = lambda *_, **__: None  # nothing to pin for
base.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0  # 10 GB, for pools that are not toys

PAGE = 16
LAYERS = 4
LAYOUTS = {
    "mha": ("layer_first", "page_first", "page_first_direct", "page_head"),
    "mla": ("layer_first", "page_first", "page_first_direct"),
}
# which axes a pool's kv_buffer has under each layout, outermost first: P page, t token in a page, T token
SHAPES = {
    ("mha", "layer_first"): "clThd",
    ("mha", "page_first"): "cTlhd",
    ("mha", "page_first_direct"): "cPlthd",
    ("mha", "page_head"): "cPhtld",
    ("mla", "layer_first"): "lThd",
    ("mla", "page_first"): "Tlhd",
    ("mla", "page_first_direct"): "Plthd",
}


def device_pool(kind: str, tokens: int = 1024, heads: int = 2) -> Any:
    shared: dict[str, Any] = dict(size=tokens, page_size=PAGE, dtype=torch.float16, layer_num=LAYERS)
    shared |= dict(device="cpu", enable_memory_saver=False)
    if kind == "mha":
        return memory_pool.MHATokenToKVPool(head_num=heads, head_dim=64, **shared)
    return memory_pool.MLATokenToKVPool(kv_lora_rank=64, qk_rope_head_dim=16, **shared)


def host_pool(kind: str, layout: str, device: Any | None = None, tokens: int = 1024, heads: int = 2) -> Any:
    device = device or device_pool(kind, tokens, heads)
    info = device.get_device_pool_infos()[0].buffer_info
    shared: dict[str, Any] = dict(host_to_device_ratio=2.0, host_size=0, page_size=PAGE, layout=layout)
    shared |= dict(pin_memory=False, device_capacity_tokens=tokens)
    shared |= dict(start_layer=device.start_layer, end_layer=device.end_layer)
    if kind == "mha":
        return MHATokenToKVPoolHost(info, **shared)
    return MLATokenToKVPoolHost(info, target_layer_num=device.layer_num, **shared)


def split_pool() -> Any:
    """page_first_kv_split: latent, rope and indexer in buffers of their own, as on Ascend."""
    device = device_pool("mla")
    info = device.get_device_pool_infos()[0].buffer_info
    index = torch.zeros((LAYERS, device.size // PAGE + 1, PAGE, 1, 32), dtype=torch.float16)
    native: dict[str, Any] = dict(k=None, v=None, index_k=index, index_scales=None)
    native |= dict(index_layer_indices=tuple(range(LAYERS)), k_width=64, v_width=16, index_width=32)
    info = msgspec.structs.replace(info, buffers=MLASplitBuffers(**native), data_ptrs=None)
    shared: dict[str, Any] = dict(host_to_device_ratio=2.0, host_size=0, page_size=PAGE, pin_memory=False)
    shared |= dict(layout="page_first_kv_split", device_capacity_tokens=1024, target_layer_num=LAYERS)
    return MLATokenToKVPoolHost(info, start_layer=device.start_layer, end_layer=device.end_layer, **shared)


def index_pool(layout: str) -> Any:
    """A side pool of another kind: keys of an indexer, without values. Under layer_first it lists no segments."""
    values: dict[str, Any] = dict(size=1024, page_size=PAGE, dtype=torch.float16, head_num=1, head_dim=32)
    device = memory_pool.MHATokenToKOnlyPool(layer_num=LAYERS, device="cpu", enable_memory_saver=False, **values)
    return MHATokenToKOnlyPoolHost(device, host_pool("mha", "page_first"), layout, pin_memory=False)


def logical(kind: str, pool: Any, indices: Any) -> Any:
    """What the pool holds at `indices`, as [c, token, l, h, d], by the shape of its buffer alone."""
    axes, buffer = SHAPES[kind, pool.layout], pool.kv_buffer
    if "P" in axes:  # [.., P, .., t, ..] to one token axis
        order = [axes.index(a) for a in ("clhd" if kind == "mha" else "lhd")]
        p, t = axes.index("P"), axes.index("t")
        rest = [i for i in order if i not in (p, t)]
        flat = buffer.permute([p, t, *rest]).flatten(0, 1)[indices]
        names = "T" + "".join(axes[i] for i in rest)
    else:
        flat = buffer.index_select(axes.index("T"), indices)
        names = axes
    if kind == "mla":
        flat, names = flat.unsqueeze(0), "c" + names
    return flat.permute([names.index(a) for a in "cTlhd"]).contiguous().view(torch.uint8)


def fill(pool: Any, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    flat = pool.kv_buffer.view(torch.uint8).view(-1)
    flat.copy_(torch.randint(0, 256, (flat.numel(),), dtype=torch.uint8, generator=generator))


# so that no deadline decides a test on a busy machine
PATIENT = {f"{what}_timeout": 60.0 for what in ("exists", "get", "put", "connect")}


def config(node: str | list[str], **changes: Any) -> HiCacheStorageConfig:
    extra = {"node": node, **PATIENT, **changes.pop("extra", {})}
    values: dict[str, Any] = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1)
    values |= dict(is_mla_model=False, enable_storage_metrics=True, is_page_first_layout=False, model_name="toy")
    return HiCacheStorageConfig(**values | {"extra_config": extra} | changes)


EXTRA = {
    "backend_name": "kvlane",
    "module_path": "kvlane_hicache",
    "class_name": "KvlaneHiCache",
    "interface_v1": 1,
}


def parallel() -> Any:
    values: dict[str, Any] = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_dcp_size=1, attn_dcp_rank=0)
    values |= dict(attn_tp_rank=0, attn_tp_size=1, attn_dp_rank=0, nnodes=1, launch_world_size=1)
    return get_parallel().override(**values)


class _Allocator:
    def __init__(self, device: Any) -> None:
        self._device = device

    def get_kvcache(self) -> Any:
        return self._device

    def set_hicache_transfer_done_event(self, *_: Any) -> None:
        pass


class Controller:
    """SGLang's controller with its threads, its factory and our class."""

    def __init__(
        self, node: str, kind: str, layout: str, hybrid: bool = True, tokens: int = 8192, **extra: Any
    ) -> None:
        device = device_pool(kind, tokens)
        self.pool = host_pool(kind, layout, device, tokens)
        self.hybrid = hybrid
        target: Any = self.pool
        if hybrid:
            entry = PoolEntry(PoolName.KV, self.pool, device, lambda i: i, is_primary_index_anchor=True)
            target = HostPoolGroup([entry])
        kind_of = HybridCacheController if hybrid else HiCacheController
        with parallel():
            self.real = kind_of(
                _Allocator(device),
                target,
                PAGE,
                None,
                threading.Event(),
                io_backend="kernel",
                storage_backend="dynamic",
                model_name="toy",
                prefetch_threshold=PAGE,
                storage_backend_extra_config=EXTRA | PATIENT | {"node": node} | extra,
            )
        self.backend = self.real.storage_backend

    def write(self, ids: list[int], hashes: list[str], source: Any) -> int:
        """Backs up; the number of tokens that arrived."""
        self.real.write_storage(source, ids, hash_value=hashes)
        return int(wait(self.real.ack_backup_queue).completed_tokens)

    def read(self, ids: list[int], name: str) -> tuple[int, int, Any]:
        """Prefetches; tokens found, tokens that came, and where they are."""
        handle: Any = name
        if self.hybrid:
            from sglang.srt.mem_cache.base_prefix_cache import CacheRequestHandle

            handle = CacheRequestHandle(name, 0)
        self.real.prefetch(handle, ids)
        hit = wait(self.real.prefetch_hit_queue)
        found = hit.storage_hit_count
        if not found:
            return 0, 0, None
        where = hit.host_indices = self.real.alloc_prefetch_host_buffers(hit, found)
        self.real.prefetch_buffer.put(hit)
        came = 0
        while not (ack := wait(self.real.ack_prefetch_queue)).completed_req:
            came = ack.completed_tokens  # one for each 128 pages, with the sum until then
        return found, came, where

    def close(self) -> None:
        self.real.detach_storage_backend()


def wait(queue: Any, seconds: float = 60) -> Any:
    until = time.monotonic() + seconds
    while queue.empty():
        if time.monotonic() > until:
            raise TimeoutError("SGLang's thread said nothing")
        time.sleep(0.002)
    return queue.get()
