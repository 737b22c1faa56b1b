# SPDX-License-Identifier: BSD-3-Clause
"""Empty stand-ins for the CUDA libraries that torch's usual build links to, for a machine without them.

usage: stubs.py FOLDER. Needs gcc, nm and readelf. FOLDER goes into LD_LIBRARY_PATH of processes that import
torch, and of no other: it has a libcuda.so.1 that can do nothing.
"""

import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

STUBBED = re.compile(r"lib(cu|nccl|nv|nvshmem)")
CALLS = re.compile(r"_{0,2}(cu[A-Z_]|cublas|cudnn|cufft|cusparse|cusolver|cupti|cuda|p?nccl|nvrtc|nvshmem|nvJit)")


def output(*command: object) -> str:
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def wanted(folder: Path) -> dict[str, dict[str, set[str]]]:
    """library: version: symbols, of what torch's own libraries want from libraries that are not there."""
    needed: set[str] = set()
    missing: set[tuple[str, str]] = set()
    defined: set[str] = set()
    library_of: dict[str, str] = {}
    own = sorted(folder.glob("*.so*"))
    for path in own:
        needed.update(re.findall(r"NEEDED.*\[(.*?)\]", output("readelf", "-dW", path)))
        library = ""
        for line in output("readelf", "-VW", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            elif (found := re.search(r"Name: (\S+)\s+Flags", line)) and library:
                library_of[found[1]] = library
        for line in output("nm", "-D", path).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            if kind == "U":
                missing.add((name, version.lstrip("@")))
            else:
                defined.add(name)
    stubs: dict[str, dict[str, set[str]]] = {
        name: defaultdict(set) for name in sorted(needed - {p.name for p in own}) if STUBBED.match(name)
    }
    anywhere = next(iter(stubs))
    for name, version in missing:
        if version and library_of.get(version) in stubs:
            stubs[library_of[version]][version].add(name)
        elif not version and name not in defined and CALLS.match(name):
            stubs[anywhere]["KVLANE_STUB"].add(name)
    return stubs


def build(folder: Path, name: str, versions: dict[str, set[str]]) -> None:
    source, script = folder / "stub.c", folder / "stub.map"
    symbols = sorted(set().union(*versions.values()))
    source.write_text("".join(f"int {symbol}(void) {{ return 100; }}\n" for symbol in symbols))
    lines = [f"{v} {{ global: {' '.join(s + ';' for s in sorted(versions[v]))} }};\n" for v in sorted(versions)]
    script.write_text("".join(lines) or "KVLANE_STUB { };\n")
    flags = ["-w", "-shared", "-fPIC", f"-Wl,-soname,{name}", f"-Wl,--version-script={script}"]
    output("gcc", *flags, "-o", folder / name, source)
    source.unlink()
    script.unlink()


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    for name, versions in wanted(Path(spec.origin).parent / "lib").items():
        build(folder, name, versions)


main()
