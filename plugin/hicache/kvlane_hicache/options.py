# SPDX-License-Identifier: BSD-3-Clause
"""What a user may say in --hicache-storage-backend-extra-config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlane.connector import Options

# SGLang's own, in the same dictionary
SGLANG = frozenset(
    "backend_name module_path class_name interface_v1 prefetch_threshold prefetch_timeout_base "
    "prefetch_timeout_per_ki_token hicache_storage_pass_prefix_keys tp_lcm_size allocator".split()
)


def parse(extra: Mapping[str, Any] | None) -> Options:
    return Options.parse(extra, SGLANG)
