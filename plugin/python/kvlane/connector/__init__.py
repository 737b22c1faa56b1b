# SPDX-License-Identifier: BSD-3-Clause
"""What the connectors of the cache frameworks have in common: options, a node that may be gone, counts.

A connector is a plugin of somebody else's engine. What is wrong with its options raises at the start; after
that nothing does: a page that cannot be had is a miss.
"""

from .client import Client
from .options import Options, decide_rank
from .stats import Funnel

__all__ = ["Client", "Funnel", "Options", "decide_rank"]
