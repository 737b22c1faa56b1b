# SPDX-License-Identifier: BSD-3-Clause
"""kvlane for Python: KV-cache pages between this process and a cache node.

    with kvlane.Engine(address="10.0.0.7:7700") as engine:
        cache = kvlane.Cache(engine, "10.0.0.7:7700")
        pool = engine.register(bytearray(1 << 20))
        cache.put({"page 1": [pool[0:4096], pool[65536:69632]]}, timeout=1.0)
        batch = cache.submit(kvlane.Op.GET, {"page 1": [pool[0:4096], pool[65536:69632]]})
        batch.wait()            # or: await batch
        batch.check()

Every wait releases the GIL. Memory stays alive until its batch is quiet. Everything can be closed in any
order, or dropped. A child of fork() gets Closed. Failures are kvlane.Error: ItemError, RailError,
PeerError and BatchError are the groups, with one class per status below them.

Start the program with UCX_MEM_MMAP_HOOK_MODE=none in its environment (README.md says why).
"""

from .batch import Batch
from .cache import Cache, Columns, Lane, Op, Rail, Session
from .engine import Engine, Node
from .errors import *  # noqa: F403
from .errors import BatchError, Error, ItemError, PeerError, RailError, Status
from .library import VERSION as __version__
from .library import lib as _lib
from .library import library_path, text_of as _text_of, version
from .memory import AddressRange, Region, Segment


def ucx() -> tuple[str, str]:
    """Version and path of the libucp in use."""
    return _text_of(_lib.kvl_ucx_version()), _text_of(_lib.kvl_ucx_path())


__all__ = [
    "AddressRange",
    "Batch",
    "BatchError",
    "Cache",
    "Columns",
    "Engine",
    "Error",
    "ItemError",
    "Lane",
    "Node",
    "Op",
    "PeerError",
    "Rail",
    "RailError",
    "Region",
    "Segment",
    "Session",
    "Status",
    "__version__",
    "library_path",
    "ucx",
    "version",
]
