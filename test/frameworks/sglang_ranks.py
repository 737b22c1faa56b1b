# SPDX-License-Identifier: BSD-3-Clause
"""Eight ranks of an engine with data-parallel attention, as processes: tp_rank is 0 on each of them.

usage: sglang_ranks.py NODE DEVICE...   as JSON, a row for each rank: pages written, and by how much the
kernel's counter of sent bytes of each device grew meanwhile
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import sglang_cpu as cpu
from sglang_cpu import PAGE

from kvlane_hicache import KvlaneHiCache
from sglang.srt.distributed.parallel_state import init_distributed_environment

RANKS = 8
PAGES = 64


def rank_main(rank: int, node: str, devices: list[str], folder: str, line: Connection) -> None:
    # a group of SGLang's own, from which the connector learns the rank
    init_distributed_environment(
        backend="gloo", world_size=1, rank=0, local_rank=rank, distributed_init_method=f"file://{folder}/{rank}"
    )
    extra = {"affinity": "rank", "rails": ",".join(devices)}
    backend = KvlaneHiCache(cpu.config(node, tp_rank=0, tp_size=1, dp_rank=rank, extra=extra), {})
    pool = cpu.host_pool("mha", "layer_first")
    backend.register_mem_pool_host(pool)
    at = pool.alloc(PAGES * PAGE)
    line.send("ready")
    line.recv()
    line.send(sum(backend.batch_set_v1([f"rank {rank} page {i}" for i in range(PAGES)], at)))
    line.recv()
    backend.close()


def sent(devices: list[str]) -> list[int]:
    return [int(Path(f"/sys/class/net/{device}/statistics/tx_bytes").read_text()) for device in devices]


def main() -> None:
    node, devices = sys.argv[1], sys.argv[2:]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    fork = multiprocessing.get_context("fork")  # nothing of kvlane or torch runs yet
    lines, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(RANKS):
            mine, its = fork.Pipe()
            fork.Process(target=rank_main, args=(rank, node, devices, folder, its), daemon=True).start()
            its.close()
            lines.append(mine)
        for line in lines:
            line.recv()
        for line in lines:  # all are connected, one moves pages
            before = sent(devices)
            line.send("go")
            pages = line.recv()
            rows.append([pages, [after - b for after, b in zip(sent(devices), before)]])
        for line in lines:
            line.send("end")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
