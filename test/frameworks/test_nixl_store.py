# SPDX-License-Identifier: BSD-3-Clause
"""kvlane's storage backend of NIXL, KVLANEKV: objects of real NIXL agents on a real cache node."""

import subprocess
import sys
import time
import unittest

from nixl_agent import STORE, Agent, NixlError
from nixl_stage import BUILD, MIB, SRC, Stage

sys.path.insert(0, str(SRC / "test" / "python"))
from support import Kvlaned  # noqa: E402

PAGE = 4296


class Objects(Stage):
    def store(self, node: Kvlaned, name: str = "here", **params: str) -> Agent:
        return self.agent(name, params={"node": node.address, **params}, backends=(STORE,))

    def kvlane(self, node: Kvlaned, *arguments: str) -> bytes:
        return subprocess.run([BUILD / "kvlane", "-s", node.address, *arguments], capture_output=True, check=True).stdout

    def test_what_one_agent_stores_another_finds(self) -> None:
        with Kvlaned() as node:
            for rails in ("tcp", "auto"):
                with self.subTest(rails=rails):
                    here, there = self.store(node, "here", rails=rails), self.store(node, "there", rails=rails)
                    here.fill(1, 0, 200 * PAGE)
                    keys = [f"{rails} page {i}" for i in range(200)]
                    # an object of two pieces that lie apart
                    blocks = [(key, at, there_at, n) for i, key in enumerate(keys) for at, there_at, n in
                              ((i * PAGE, 0, 1000), (i * PAGE + 1000, 1000, PAGE - 1000))]
                    self.assertEqual(there.objects_there(keys[:3]), [False] * 3)
                    self.assertEqual(here.move_objects("WRITE", blocks), "DONE")
                    self.assertEqual(there.objects_there(["none", *keys, "none either"]), [False, *[True] * 200, False])
                    # got in one piece each, to another place
                    self.assertEqual(
                        there.move_objects("READ", [(key, (199 - i) * PAGE, 0, PAGE) for i, key in enumerate(keys)]), "DONE")
                    sent, got = here.read(0, 200 * PAGE), there.read(0, 200 * PAGE)
                    for i in range(200):
                        at = (199 - i) * PAGE
                        self.assertEqual(got[at:at + PAGE], sent[i * PAGE:(i + 1) * PAGE])
                    self.assertEqual(self.kvlane(node, "get", keys[7], "-"), sent[7 * PAGE:8 * PAGE])

    def test_an_object_without_a_text_is_its_number(self) -> None:
        with Kvlaned() as node:
            here = self.store(node)
            here.fill(2, 0, PAGE)
            self.assertEqual(here.move_objects("WRITE", [("77", 0, 0, PAGE)]), "DONE")
            self.assertEqual(self.kvlane(node, "get", "77", "-"), here.read(0, PAGE))

    def test_what_is_wrong_is_an_error_and_named(self) -> None:
        with Kvlaned() as node:
            here = self.store(node)
            self.assertEqual(here.move_objects("WRITE", [("there", 0, 0, PAGE)]), "DONE")
            here.set(7, 0, 2 * PAGE)
            with self.assertRaisesRegex(NixlError, "NotFound"):
                here.move_objects("READ", [("there", 0, 0, PAGE), ("none", PAGE, 0, PAGE)])
            here.set(7, 0, PAGE)
            with self.assertRaises(NixlError):  # it is longer
                here.move_objects("READ", [("there", 0, 0, 100)])
            self.assertEqual(here.count(7, 0, 100), 100)
            with self.assertRaises(NixlError):  # a gap
                here.move_objects("WRITE", [("gap", 0, 0, 100), ("gap", 100, 200, 100)])
            with self.assertRaises(NixlError):
                here.move_objects("WRITE", [("k" * 300, 0, 0, 100)])
            self.assertEqual(here.objects_there(["gap"]), [False])
            said = here.end()
        for text in ("an object is moved whole", "its key has 300 bytes; at most 255"):
            self.assertIn(text, said)

    def test_a_node_that_goes_costs_an_error_and_comes_back(self) -> None:
        with Kvlaned() as node:
            here = self.store(node, timeout="5s")
            here.fill(3, 0, MIB)
            self.assertEqual(here.move_objects("WRITE", [("page", 0, 0, MIB)]), "DONE")
            node.kill()
            begun = time.monotonic()
            with self.assertRaises(NixlError):
                here.move_objects("READ", [("page", 0, 0, MIB)])
            with self.assertRaises(NixlError):
                here.objects_there(["page"])
            self.assertLess(time.monotonic() - begun, 15)
            with Kvlaned(listen=node.address):
                until, state = time.monotonic() + 30, ""
                while state != "DONE" and time.monotonic() < until:
                    try:
                        state = here.move_objects("WRITE", [("page", 0, 0, MIB)])
                    except NixlError:
                        pass
                self.assertEqual(state, "DONE")
                self.assertEqual(here.objects_there(["page"]), [True])

    def test_the_environment_names_the_node_too(self) -> None:
        with Kvlaned() as node:
            here = self.agent("here", env={"KVLANE_NIXL_NODE": node.address}, backends=(STORE, "KVLANE"))
            here.fill(4, 0, PAGE)
            self.assertEqual(here.move_objects("WRITE", [("page", 0, 0, PAGE)]), "DONE")
            self.assertEqual(self.kvlane(node, "get", "page", "-"), here.read(0, PAGE))

    def test_without_a_node_it_says_what_to_set(self) -> None:
        self.assertIn("set KVLANE_NIXL_NODE", self.refused(backends=(STORE,)))
        self.assertIn("unknown option nodes; known: node, depth", self.refused(backends=(STORE,), params={"nodes": "x"}))


if __name__ == "__main__":
    unittest.main()
