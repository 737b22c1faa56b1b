# SPDX-License-Identifier: BSD-3-Clause
"""The virtual functions of a NIXL backend's class, read from its binary: kvlane's are compared with those of a
plugin that came with NIXL, since NIXL's version number does not tell when their order changes.

usage: nixl_slots.py PLUGIN.so CLASS      prints them
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys

# our names of NIXL's types, and what else differs only in how it is written
SAME = {
    "kvlane_nixl::BlobDescriptor": "nixlBlobDesc",
    "kvlane_nixl::RemoteMetaDescriptor": "nixlRemoteMetaDesc",
    "kvlane_nixl::MetaDescriptor": "nixlMetaDesc",
    "kvlane_nixl::Metadata": "nixlBackendMD",
    "kvlane_nixl::Memory": "nixl_mem_t",
    "kvlane_nixl::Operation": "nixl_xfer_op_t",
    "kvlane_nixl::Request": "nixlBackendReqH",
    "kvlane_nixl::PostOptions": "nixlBackendOptionalArgs",
    "kvlane_nixl::AgentOptions": "nixlAgentOptionalArgs",
    "kvlane_nixl::CostMethod": "nixl_cost_t",
    "kvlane_nixl::List": "nixlDescList",
}


def tool(*command: str, text: str = "") -> str:
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def symbols(path: str) -> list[tuple[str, int, int, str]]:
    """(type, address, size, mangled name) of what is defined"""
    found = []
    for line in tool("readelf", "-sW", path).splitlines():
        word = line.split()
        if len(word) >= 8 and word[0].rstrip(":").isdigit() and word[6] != "UND":
            found.append((word[3], int(word[1], 16), int(word[2], 0), word[7].split("@")[0]))
    return found


def relocations(path: str) -> dict[int, tuple[int, str]]:
    """place: (address, "") or (0, name)"""
    found = {}
    for line in tool("readelf", "-rW", path).splitlines():
        word = line.split()
        if len(word) == 4 and word[2] == "R_X86_64_RELATIVE":
            found[int(word[0], 16)] = (int(word[3], 16), "")
        elif len(word) >= 5 and word[2] == "R_X86_64_64":
            found[int(word[0], 16)] = (0, word[4].split("@")[0])
    return found


def demangled(names: list[str]) -> list[str]:
    return tool("c++filt", text="\n".join(names)).splitlines()


def slots(path: str, class_name: str) -> list[set[str]]:
    """ "function(arguments) const" of each virtual function, without the class it comes from; several names where the
    compiler made one of functions that do the same"""
    defined = symbols(path)
    tables = [s for s, name in zip(defined, demangled([s[3] for s in defined])) if name == f"vtable for {class_name}"]
    if not tables:
        raise SystemExit(f"{path} has no class {class_name}")
    _, at, size, _ = tables[0]
    functions: dict[int, list[str]] = {}
    for kind, address, _, name in defined:
        if kind == "FUNC":
            functions.setdefault(address, []).append(name)
    moved = relocations(path)
    pointer = struct.calcsize("P")
    names = []
    for place in range(at + 2 * pointer, at + size, pointer):
        address, name = moved[place]
        names.append([name] if name else functions[address])
    return [{plain(name) for name in demangled(same)} for same in names]


def plain(name: str) -> str:
    for ours, theirs in SAME.items():
        name = name.replace(ours, theirs)
    head, _, rest = name.partition("(")
    return re.sub(r"^.*::", "", head).replace("~", "~ ").split(" ")[0] + "(" + rest


if __name__ == "__main__":
    for number, slot in enumerate(slots(*sys.argv[1:])):
        print(f"{number:3} {' or '.join(sorted(slot))}")
