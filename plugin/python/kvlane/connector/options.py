# SPDX-License-Identifier: BSD-3-Clause
"""What a user may say to a connector, and the engine settings it becomes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

# options that are settings of the engine, under another name
SETTINGS = {
    "depth": "KVLANE_DEPTH",
    "sg_endpoints": "KVLANE_SG_ENDPOINTS",
    "data_depth": "KVLANE_DATA_DEPTH",
    "rails": "KVLANE_RAILS",
    "affinity": "KVLANE_AFFINITY",
}


AnyOptions = TypeVar("AnyOptions", bound="Options")


@dataclass(frozen=True)
class Options:
    node: str
    """ "host:port" of the node, or a list of those."""
    depth: int | None = None
    sg_endpoints: int | None = None
    data_depth: int | None = None
    rails: str | None = None
    affinity: str | None = None
    """rank, numa or off."""
    rank: int | None = None
    """This process among those of its host; for affinity rank, where the engine does not say."""
    settings: dict[str, object] = field(default_factory=dict)
    """Any other KVLANE_ setting, by its full name."""
    exists_timeout: float = 1.0
    get_timeout: float = 5.0
    put_timeout: float = 15.0
    connect_timeout: float = 5.0
    """How long the start waits for the node; without one everything is a miss until it comes."""
    negative_ttl: float = 30.0
    """Seconds for which a page that could not be read counts as absent."""

    @classmethod
    def parse(cls: type[AnyOptions], said: Mapping[str, Any] | None, theirs: Set[str] = frozenset()) -> AnyOptions:
        """ValueError for an unknown name (with the known ones) or a value of the wrong kind.

        theirs: names of the framework's own in the same dictionary.
        """
        known = {f.name: f for f in fields(cls)}
        mine = {name: value for name, value in (said or {}).items() if name not in theirs}
        unknown = sorted(set(mine) - set(known))
        if unknown:
            raise ValueError(f"kvlane: unknown option {', '.join(unknown)}; known: {', '.join(known)}")
        node = mine.get("node")
        if isinstance(node, (list, tuple)):
            node = ",".join(map(str, node))
        if not node or not isinstance(node, str):
            raise ValueError('kvlane: option node is wanted: "host:port"')
        mine["node"] = node
        for name, value in mine.items():
            kind = str(known[name].type).split(" ")[0].split("[")[0]
            _check_kind(name, value, kind)
        options = cls(**mine)
        if options.affinity not in (None, "rank", "numa", "off"):
            raise ValueError(f"kvlane: option affinity is {options.affinity!r}; accepted: rank, numa, off")
        if options.rank is not None and options.affinity != "rank":
            raise ValueError('kvlane: option rank is for "affinity": "rank" alone')
        return options

    def engine_settings(self, ranks: Mapping[str, int | None]) -> dict[str, object]:
        """For kvlane.Engine. ranks: who else says which rank this is, most trusted first."""
        settings = {SETTINGS[n]: v for n in SETTINGS if (v := getattr(self, n)) is not None} | self.settings
        if settings.get("KVLANE_AFFINITY", os.environ.get("KVLANE_AFFINITY")) == "rank":
            rank = decide_rank({"option rank": self.rank, **ranks, "KVLANE_RANK": os.environ.get("KVLANE_RANK")})
            if rank is not None:
                settings.setdefault("KVLANE_RANK", rank)
        return settings


def decide_rank(sources: Mapping[str, object]) -> int | None:
    """The rank that all sources that speak agree on; ValueError if they do not. None: the library asks
    the launcher's variables, and refuses to start if they are silent too."""
    said = {name: str(value) for name, value in sources.items() if value not in (None, "")}
    if len(set(said.values())) > 1:
        text = ", ".join(f"{name} says {value}" for name, value in said.items())
        raise ValueError(f"kvlane: which rank is this? {text}; take the wrong one away, or set affinity to numa")
    for name, value in said.items():
        if not value.isdigit():
            raise ValueError(f"kvlane: {name} is {value}; a rank is 0, 1, ...")
        return int(value)
    return None


def _check_kind(name: str, value: object, kind: str) -> None:
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "dict": (dict,)}
    if isinstance(value, bool) or not isinstance(value, kinds[kind]):
        raise ValueError(f"kvlane: option {name} is {value!r}; wanted: {kind}")
    if kind == "float" and name.endswith(("_timeout", "_ttl")) and not value > 0:  # type: ignore[operator]
        raise ValueError(f"kvlane: option {name} is {value}; wanted: seconds over 0")
