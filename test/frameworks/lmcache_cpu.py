# SPDX-License-Identifier: BSD-3-Clause
"""LMCache's real L2 side on a machine without a GPU: adapters as its server makes them, and toy objects in an arena."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parents[1] / "plugin" / "lmcache")]

import support  # noqa: E402, F401  (finds kvlane)

os.environ.setdefault("LMCACHE_LOG_LEVEL", "ERROR")
import torch  # noqa: E402
from lmcache.v1.distributed.api import ObjectKey  # noqa: E402
from lmcache.v1.distributed.internal_api import L1MemoryDesc  # noqa: E402
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config  # noqa: E402
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj  # noqa: E402
from lmcache.v1.platform import consume_fd  # noqa: E402

logging.getLogger("lmcache").setLevel(logging.ERROR)
FORMS = {"native_plugin": "KvlaneConnector", "plugin": "KvlaneL2Adapter"}
# nothing here waits so long: it is how long a hang takes to be one
HANG_MS = 60_000


def spec(form: str, node: str, **params: Any) -> dict[str, Any]:
    """What --l2-adapter takes."""
    names = {"type": form, "module_path": "kvlane_lmcache", "class_name": FORMS[form]}
    return names | {"adapter_params": {"node": node, **params}}


def adapter(of: dict[str, Any], arena: torch.Tensor | None = None) -> Any:
    """Through LMCache's parser and factory."""
    config = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(of)])).adapters[0]
    desc = None if arena is None else L1MemoryDesc(arena.data_ptr(), arena.numel(), 4096)
    return create_l2_adapter(config, l1_memory_desc=desc)


def connector(of: Any) -> Any:
    """Ours, inside an adapter."""
    return of._client


def keys(name: str, count: int, **changes: Any) -> list[ObjectKey]:
    rank = ObjectKey.ComputeKVRank(2, 1, 2, 1)
    fields: dict[str, Any] = {"model_name": f"toy/{name}", "kv_rank": rank} | changes
    return [ObjectKey(chunk_hash=i.to_bytes(32, "big"), **fields) for i in range(count)]


def objects(arena: torch.Tensor, count: int, size: int, first: int = 0) -> list[TensorMemoryObj]:
    """`count` objects of `size` bytes, in a row from byte `first` of the arena."""
    made = []
    for i in range(count):
        part = arena[first + i * size : first + (i + 1) * size]
        what: dict[str, Any] = dict(shape=part.shape, dtype=part.dtype, address=part.data_ptr(), phy_size=size)
        about = MemoryObjMetadata(**what, fmt=MemoryFormat.KV_2LTD, ref_count=1)
        made.append(TensorMemoryObj(part, about, parent_allocator=None))
    return made


def view_at(address: int, length: int) -> memoryview:
    return memoryview((ctypes.c_char * length).from_address(address))


def readable(fd: int) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    assert poller.poll(HANG_MS), "a task that never ends"


def _end(fd: int, ask: Callable[[], Any]) -> Any:
    """What `ask` says once it does not say None."""
    while (said := ask()) is None:
        readable(fd)
        consume_fd(fd)
    return said


def stored(of: Any, tasks: Sequence[int]) -> list[bool]:
    """Of store tasks that nobody waited for yet, whether they went well."""
    said: dict[int, Any] = {}

    def all_ended() -> bool | None:
        said.update(of.pop_completed_store_tasks())
        return set(tasks) <= set(said) or None

    _end(of.get_store_event_fd(), all_ended)
    return [bool(said[task].is_successful()) for task in tasks]


def _flags(bitmap: Any, count: int) -> list[bool]:
    return [bool(bitmap.test(i)) for i in range(count)]


def looked_up(of: Any, task: int, count: int) -> list[bool]:
    fd = of.get_lookup_and_lock_event_fd()
    return _flags(_end(fd, lambda: of.query_lookup_and_lock_result(task)), count)


def loaded(of: Any, task: int, count: int) -> list[bool]:
    return _flags(_end(of.get_load_event_fd(), lambda: of.query_load_result(task)), count)


def store(of: Any, names: Sequence[ObjectKey], values: Sequence[TensorMemoryObj]) -> bool:
    return stored(of, [of.submit_store_task(list(names), list(values))])[0]


def lookup(of: Any, names: Sequence[ObjectKey]) -> list[bool]:
    flags = looked_up(of, of.submit_lookup_and_lock_task(list(names), {}), len(names))
    of.submit_unlock([name for name, ok in zip(names, flags) if ok])
    return flags


def load(of: Any, names: Sequence[ObjectKey], values: Sequence[TensorMemoryObj]) -> list[bool]:
    return loaded(of, of.submit_load_task(list(names), list(values)), len(names))
