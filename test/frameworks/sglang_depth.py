# SPDX-License-Identifier: BSD-3-Clause
"""Moves layer_first pages at each depth over each transport; to be run with libinterpose.so loaded.

usage: sglang_depth.py NODE   as JSON, a row for each run: transport, pages written, pages read, and the depth and
sg endpoints in force
"""

from __future__ import annotations

import json
import sys

import sglang_cpu as cpu
from sglang_cpu import PAGE

from kvlane_hicache import KvlaneHiCache

PAGES = 128
DEPTHS = (1, 4, 16)


def main() -> None:
    rows = []
    pool = cpu.host_pool("mha", "layer_first", tokens=PAGES * PAGE)
    at = pool.alloc(PAGES * PAGE)
    for rails in ("tcp", "shm"):
        for depth in DEPTHS:
            extra = {"depth": depth, "sg_endpoints": depth, "rails": rails}
            backend = KvlaneHiCache(cpu.config(sys.argv[1], extra=extra), {})
            backend.register_mem_pool_host(pool)
            keys = [f"{rails} {depth} {i}" for i in range(PAGES)]
            moved = [sum(backend.batch_set_v1(keys, at)), sum(backend.batch_get_v1(keys, at))]
            rows.append([rails, *moved, backend.session().depth, backend.session().sg_endpoints])
            backend.close()
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
