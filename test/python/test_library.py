# SPDX-License-Identifier: BSD-3-Clause
"""The binding and the C headers say the same; the library is found, named and checked."""

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import BUILD, PACKAGE, SRC, python

import kvlane
from kvlane import library

SHOW = "import kvlane; print(kvlane.library_path)"


def compiled(folder: str, name: str, text: str, *flags: str) -> str:
    source, target = Path(folder, name + ".c"), Path(folder, name)
    source.write_text(text)
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-w", "-I", SRC / "src", source, "-o", target, *flags], check=True)
    return str(target)


class Readme(unittest.TestCase):
    def test_the_example_runs_as_it_stands_and_prints_what_it_says(self) -> None:
        text = (SRC / "README.md").read_text()
        example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
        says = re.search(r"It prints `(.*?)`", text)
        assert example and says
        done = python(example[1])
        self.assertEqual(done.stdout.strip(), says[1], done.stderr)


class Headers(unittest.TestCase):
    def test_structures_are_those_of_the_headers(self) -> None:
        pairs = {
            "kvl_segment_t": library.Segment,
            "kvl_item_t": library.Item,
            "kvl_engine_params_t": library.EngineParams,
            "kvl_batch_params_t": library.BatchParams,
            "kvl_node_params_t": library.NodeParams,
            "kvl_node_stat_t": library.NodeStat,
            "kvl_session_info_t": library.SessionInfo,
            "kvl_lane_stat_t": library.LaneStat,
            "kvl_rail_stat_t": library.RailStat,
        }
        lines, mine = [], []
        for c_name, structure in pairs.items():
            lines.append(f'printf("%zu\\n", sizeof({c_name}));')
            mine.append(ctypes.sizeof(structure))
            for field, *_ in structure._fields_:
                lines.append(f'printf("%zu\\n", offsetof({c_name}, {field}));')
                mine.append(getattr(structure, field).offset)
        for c_name, value in {
            "KVL_KEY_MAX": library.KEY_MAX,
            "KVL_SEGMENTS_MAX": library.SEGMENTS_MAX,
            "KVL_BATCH_MAX": library.BATCH_MAX,
            "KVL_CACHE_PUT": kvlane.Op.PUT,
            "KVL_CACHE_GET": kvlane.Op.GET,
            "KVL_CACHE_EXISTS": kvlane.Op.EXISTS,
            "KVL_CACHE_REMOVE": kvlane.Op.REMOVE,
        }.items():
            lines.append(f'printf("%zu\\n", (size_t){c_name});')
            mine.append(int(value))
        text = "#include <kvlane/node.h>\n#include <stdio.h>\nint main(void) {" + "".join(lines) + "return 0;}"
        with tempfile.TemporaryDirectory() as folder:
            said = subprocess.run([compiled(folder, "layout", text)], capture_output=True, text=True, check=True)
        self.assertEqual([int(n) for n in said.stdout.split()], mine)

    def test_every_status_has_its_number_and_an_exception_of_its_group(self) -> None:
        text = (SRC / "src/kvlane/status.h").read_text()
        codes = {m[1]: int(m[2]) for m in re.finditer(r"KVL_(?:ERR_)?([A-Z_]+) *= (-?\d+)", text)}
        self.assertEqual({s.name: s.value for s in kvlane.Status}, codes)
        groups = [None, kvlane.ItemError, kvlane.RailError, kvlane.PeerError, kvlane.BatchError]
        for name, code in codes.items():
            if code < 0:
                found = kvlane.errors.error(code, "text")
                self.assertEqual(found.status.name, name)
                self.assertIsInstance(found, groups[library.lib.kvl_status_group(code)])
                self.assertEqual(str(found), "text")


class Finding(unittest.TestCase):
    def test_kvlane_library_names_the_file(self) -> None:
        wanted = os.path.realpath(BUILD / ".libs/libkvlane.so")
        self.assertEqual(kvlane.library_path, wanted)
        self.assertEqual(python(SHOW).stdout.strip(), wanted)

    def test_a_library_beside_the_package_comes_before_the_system(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PACKAGE / "kvlane", Path(folder, "kvlane"))
            shutil.copy(BUILD / ".libs/libkvlane.so", Path(folder, "kvlane"))
            said = python(SHOW, KVLANE_LIBRARY="", PYTHONPATH=folder)
        self.assertEqual(said.stdout.strip(), os.path.realpath(Path(folder, "kvlane/libkvlane.so")))

    def test_the_systems_loader_is_asked_last(self) -> None:
        said = python(SHOW, KVLANE_LIBRARY="", LD_LIBRARY_PATH=str(BUILD / ".libs"))
        self.assertEqual(said.stdout.strip(), os.path.realpath(BUILD / ".libs/libkvlane.so"))

    def test_no_library_says_what_was_tried_and_what_to_do(self) -> None:
        said = python(SHOW, KVLANE_LIBRARY="/nowhere/libkvlane.so")
        self.assertIn("/nowhere/libkvlane.so", said.stderr)
        self.assertIn("Set KVLANE_LIBRARY", said.stderr)
        self.assertIn("ImportError", said.stderr)

    def test_another_release_and_another_library_are_refused(self) -> None:
        names = [n for n in library._PROTOTYPES if n != "kvl_version"]
        other = 'const char *kvl_version(void) { return "0.2.7"; }'
        whole = other + "".join(f"void {n}(void) {{}}" for n in names)
        with tempfile.TemporaryDirectory() as folder:
            newer = compiled(folder, "newer.so", whole, "-shared", "-fPIC")
            said = python(SHOW, KVLANE_LIBRARY=newer).stderr
            self.assertIn(f"{os.path.realpath(newer)} is kvlane 0.2.7, this Python package is of 0.1.0", said)
            less = compiled(folder, "less.so", other, "-shared", "-fPIC")
            self.assertIn("has no kvl_ucx_version", python(SHOW, KVLANE_LIBRARY=less).stderr)

    def test_versions_of_package_and_library_are_one(self) -> None:
        self.assertEqual(kvlane.__version__, kvlane.version)
        self.assertIn(f'version = "{kvlane.version}"', (PACKAGE / "pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
