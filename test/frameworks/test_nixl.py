# SPDX-License-Identifier: BSD-3-Clause
"""kvlane's NIXL backend under real NIXL agents in two processes: what arrives, and what is told of it."""

import os
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import nixl_slots
from nixl_agent import Agent, NixlError
from nixl_stage import FAKE_GPU, MIB, PLUGIN, STORE_PLUGIN, Stage, plugins_tool, site_packages, their_plugins

RAILS = ("tcp", "auto")  # auto: shared memory, as both are on this host


class Binary(unittest.TestCase):
    def test_its_virtual_functions_are_those_of_a_plugin_that_came_with_nixl(self) -> None:
        theirs = nixl_slots.slots(str(their_plugins() / "libplugin_POSIX.so"), "nixlPosixEngine")
        self.assertEqual(len(theirs), 27)
        for plugin, name in ((PLUGIN, "Transport"), (STORE_PLUGIN, "Store")):
            ours = nixl_slots.slots(str(plugin), f"kvlane_nixl::{name}")
            self.assertEqual(len(ours), len(theirs))
            for number, (here, there) in enumerate(zip(ours, theirs)):
                self.assertTrue(here & there, f"{name}, slot {number}: {here}, theirs {there}")


class Tool(Stage):
    def test_a_link_beside_nixls_own_is_made_shown_and_removed(self) -> None:
        def unlink(place: Path) -> None:
            if place.is_symlink():
                place.unlink()

        places = [(their_plugins() / plugin.name, plugin) for plugin in (PLUGIN, STORE_PLUGIN)]
        for place, _ in places:
            self.addCleanup(unlink, place)
        done = plugins_tool("--plugin", str(PLUGIN))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = plugins_tool("--plugin", str(PLUGIN), "--show").stdout
        for place, plugin in places:
            self.assertIn(str(place), done.stdout)
            self.assertEqual(place.resolve(), plugin.resolve())
            self.assertIn(f"linked: {plugin.resolve()}", shown)
        removed = plugins_tool("--remove").stdout
        for place, _ in places:
            self.assertIn(f"removed {place}", removed)
            self.assertFalse(place.is_symlink())

    def test_what_is_wrong_is_named(self) -> None:
        for arguments, text in ((("--plugin", "/nowhere/x.so"), "no libplugin_KVLANE.so in /nowhere"),
                                (("--plugin", __file__), "cannot be loaded")):
            done = plugins_tool(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)
        self.assertEqual(plugins_tool("--link").returncode, 2)

    def test_its_folder_has_nixls_own_plugins_too(self) -> None:
        there = self.agent("there", backends=("KVLANE", "UCX"))
        here = self.agent("here", backends=("UCX", "KVLANE"))
        here.fill(1, 0, MIB)
        here.add(there.metadata())
        self.assertEqual(here.move("WRITE", "there", there.base(), [(0, 0, MIB)]), "DONE")
        self.assertTrue(there.is_filled(1, 0, MIB))


def scattered(count: int, length: int) -> list[tuple[int, int, int]]:
    """Blocks that lie in a row here and in another order there."""
    order = list(range(count))
    random.Random(5).shuffle(order)
    return [(i * length, order[i] * length, length) for i in range(count)]


class Arrival(Stage):
    def arrives(self, here: Agent, there: Agent, blocks: list[tuple[int, int, int]], prepped: bool, kind: str = "") -> None:
        """Both ways, and nothing else is touched. `kind`: of the memory there, if not of ours."""
        size = sum(length for _, _, length in blocks)
        here.fill(1, 0, size)
        there.fill(2, 0, 4 * MIB)
        beyond = there.read(size, 4 * MIB - size)
        self.assertEqual(here.move("WRITE", "there", there.base(), blocks, prepped, kind), "DONE")
        sent, got = here.read(0, size), there.read(0, 4 * MIB)
        for a, b, n in blocks:
            self.assertEqual(got[b:b + n], sent[a:a + n])
        self.assertEqual(got[size:], beyond)
        there.fill(3, 0, size)
        self.assertEqual(here.move("READ", "there", there.base(), blocks, prepped, kind), "DONE")
        sent, got = there.read(0, size), here.read(0, size)
        for a, b, n in blocks:
            self.assertEqual(got[a:a + n], sent[b:b + n])


class Move(Arrival):
    def test_scattered_blocks_arrive_both_ways(self) -> None:
        for rails in RAILS:
            here, there = self.pair(env={"KVLANE_RAILS": rails})
            for prepped in (False, True):
                with self.subTest(rails=rails, prepped=prepped):
                    self.arrives(here, there, scattered(300, 4296), prepped)

    def test_a_request_is_posted_many_times(self) -> None:
        here, there = self.pair()
        number = here.make("WRITE", "there", there.base(), [(0, MIB, MIB), (MIB, 0, MIB)])
        for seed in range(20):
            here.fill(seed, 0, MIB)
            here.post(number)
            self.assertEqual(here.wait(number), "DONE")
            self.assertTrue(there.is_filled(seed, MIB, MIB))
        here.release(number)

    def test_an_agent_moves_within_itself(self) -> None:
        here = self.agent("here")
        here.fill(3, 0, MIB)
        self.assertEqual(here.move("WRITE", "here", here.base(), [(0, 2 * MIB, MIB)]), "DONE")
        self.assertTrue(here.is_filled(3, 2 * MIB, MIB))
        self.assertEqual(here.move("READ", "here", here.base(), [(3 * MIB, 2 * MIB, MIB)]), "DONE")
        self.assertTrue(here.is_filled(3, 3 * MIB, MIB))

    def test_memory_that_was_taken_back_is_not_reached_any_more(self) -> None:
        here, there = self.pair()
        number = here.make("WRITE", "there", there.base(), [(0, 0, MIB)])
        here.post(number)
        self.assertEqual(here.wait(number), "DONE")
        there.deregister()
        here.fill(9, 0, MIB)
        with self.assertRaises(NixlError):
            if here.post(number) == "PROC":
                here.wait(number)
        self.assertFalse(there.is_filled(9, 0, MIB))
        here.release(number)


class Notes(Stage):
    NOTES = (b"done", b"\0", b"\0\xff\xfe\n", bytes(range(256)) * 4096)  # the last: 1 MiB

    def test_they_come_byte_by_byte_after_all_data(self) -> None:
        length = 3 * MIB
        blocks = [(i * 8192, (length // 8192 - 1 - i) * 8192, 8192) for i in range(length // 8192)]
        for rails in RAILS:
            here, there = self.pair(env={"KVLANE_RAILS": rails})
            number = here.make("WRITE", "there", there.base(), blocks)
            for seed, note in enumerate(self.NOTES):
                here.fill(seed, 0, length)
                sent = here.read(0, length)
                there.ask("note_then_read", length)
                here.post(number, note)
                self.assertEqual(here.wait(number), "DONE")
                found, got = there.answer()
                self.assertEqual(found, [("here", note)])
                for a, b, n in blocks:
                    self.assertEqual(got[b:b + n], sent[a:a + n])
            self.assertEqual(there.notes(1, 0), [])
            here.release(number)

    def test_they_come_without_data_too_also_empty_and_to_oneself(self) -> None:
        here, there = self.pair()
        there.add(here.metadata())
        for note in (b"", *self.NOTES):
            here.send("there", note)
            self.assertEqual(there.notes(1), [("here", note)])
            there.send("here", note)
            self.assertEqual(here.notes(1), [("there", note)])
            here.send("here", note)
            self.assertEqual(here.notes(1), [("here", note)])

    def test_that_of_a_read_comes_when_the_bytes_are_here(self) -> None:
        here, there = self.pair()
        there.fill(4, 0, MIB)
        number = here.make("READ", "there", there.base(), [(0, 0, MIB)])
        here.post(number, b"read")
        self.assertEqual(here.wait(number), "DONE")
        self.assertTrue(here.is_filled(4, 0, MIB))
        self.assertEqual(there.notes(1), [("here", b"read")])
        here.release(number)

    def test_one_that_is_too_long_is_refused(self) -> None:
        here, there = self.pair()
        with self.assertRaisesRegex(NixlError, "InvalidParam"):
            here.send("there", bytes(MIB + 8192))
        here.send("there", b"next")
        self.assertEqual(there.notes(1), [("here", b"next")])


class Options(Stage):
    def test_what_is_unknown_or_wrong_is_refused_and_named(self) -> None:
        for params, text in (({"deepth": "4"}, "unknown option deepth; known: address, depth, sg_endpoints"),
                             ({"depth": "many"}, "option depth: "),
                             ({"KVLANE_DEEPTH": "4"}, "KVLANE_DEEPTH"),
                             ({"address": "0.0.0.0:7000"}, "tells other hosts nothing"),
                             ({"address": "198.51.100.7"}, "198.51.100.7")):
            with self.subTest(params=params):
                self.assertIn(text, self.refused(params=params))

    def test_they_come_from_the_call_or_the_environment(self) -> None:
        agent = self.agent("here", env={"KVLANE_DEPTH": "3", "KVLANE_NIXL_ADDRESS": "127.0.0.1"})
        shown = agent.plugin_params()
        self.assertEqual((shown["depth"], shown["address"]), ("3", "127.0.0.1"))
        self.assertEqual(agent.plugin_mems(), ["DRAM_SEG", "VRAM_SEG"] if FAKE_GPU.exists() else ["DRAM_SEG"])
        # what NIXL shows may be handed back as it is
        other = self.agent("there", params={**shown, "rails": "tcp", "KVLANE_QUIESCE": "10ms"})
        other.fill(7, 0, MIB)
        other.add(agent.metadata())
        self.assertEqual(other.move("WRITE", "here", agent.base(), [(0, 0, MIB)]), "DONE")
        self.assertTrue(agent.is_filled(7, 0, MIB))


@unittest.skipUnless(FAKE_GPU.exists(), "built without CUDA")
class DeviceMemory(Arrival):
    """Of a driver without a GPU: the CPU cannot touch it."""

    def test_scattered_blocks_arrive_both_ways(self) -> None:
        for rails in RAILS:
            for gpu_here, gpu_there in ((True, True), (True, False), (False, True)):
                with self.subTest(rails=rails, gpu_here=gpu_here, gpu_there=gpu_there):
                    here, there = (
                        self.agent(name, params={"rails": rails}, env={"KVLANE_CUDA_LIBRARY": str(FAKE_GPU)},
                                   gpu=str(FAKE_GPU) if gpu else "")
                        for name, gpu in (("here", gpu_here), ("there", gpu_there))
                    )
                    here.add(there.metadata())
                    self.arrives(here, there, scattered(300, 4296), gpu_here, "VRAM" if gpu_there else "DRAM")
                    here.end()
                    there.end()

    def test_what_is_no_device_memory_is_refused_and_named(self) -> None:
        agent = self.agent("here", env={"KVLANE_CUDA_LIBRARY": str(FAKE_GPU)}, gpu=str(FAKE_GPU))
        with self.assertRaises(NixlError):
            agent.register_pages("VRAM", 0)
        with self.assertRaises(NixlError):
            agent.register_own("VRAM", 1)
        said = agent.end()
        self.assertIn("registered as VRAM, but host memory: register it as DRAM", said)
        self.assertIn("registered as memory of GPU 1, but of GPU 0", said)


class Company(Stage):
    def test_names_that_clash_do_not_matter(self) -> None:
        """A library with names of NIXL's plugins and of kvlane's inside in everybody's sight is loaded first."""
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "clash.c", Path(folder) / "libclash.so"
            names = ("nixl_plugin_init", "nixl_plugin_fini", "kvl_plugin_get", "kvl_region_find",
                     "kvl_now_ns", "_ZN11kvlane_nixl9status_ofE12kvl_status_t")
            source.write_text("#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
            subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
            here, there = self.pair(preload=str(library))
            here.fill(8, 0, MIB)
            self.assertEqual(here.move("WRITE", "there", there.base(), [(0, 0, MIB)]), "DONE")
            self.assertTrue(there.is_filled(8, 0, MIB))

    def test_the_example_of_nixls_wheel_runs_with_it(self) -> None:
        site = site_packages()
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(site / "nixl_cu12.scripts" / "nixl_example", folder)
            os.chmod(program, 0o755)
            libraries = f"{site}/.nixl_cu12.mesonpy.libs:{site}/nixl_cu12.libs"
            done = subprocess.run([program, "KVLANE"], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "UCX_MODULES": "^ib", "LD_LIBRARY_PATH": libraries})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Transfer verified", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
