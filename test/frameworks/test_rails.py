# SPDX-License-Identifier: BSD-3-Clause
"""The rail of each rank, over two network namespaces joined by four pairs of devices."""

import json
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from support import Kvlaned  # noqa: E402

DEVICES = [f"kvr{i}" for i in range(4)]
PAGE_BYTES = 2 * 4 * 16 * 2 * 64 * 2  # K and V, layers, tokens, heads, of fp16


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Rails(unittest.TestCase):
    def setUp(self) -> None:
        if os.getuid() != 0 or not shutil.which("ip"):
            self.skipTest("network namespaces take root, and ip")
        self.here, self.there = (f"kvr{os.getpid()}{side}" for side in "ab")
        try:
            for namespace in (self.here, self.there):
                ip("netns", "add", namespace)
                self.addCleanup(ip, "netns", "del", namespace)
                ip("-n", namespace, "link", "set", "lo", "up")
            for i, device in enumerate(DEVICES):
                ends = ("netns", self.here, "type", "veth", "peer", "name", device, "netns", self.there)
                ip("link", "add", device, *ends)
                for side, namespace in enumerate((self.here, self.there), 1):
                    ip("-n", namespace, "addr", "add", f"10.78.{i}.{side}/24", "dev", device)
                    ip("-n", namespace, "link", "set", device, "up")
        except subprocess.CalledProcessError as why:
            self.skipTest(f"no network namespaces may be made here: {why.stderr}")
        end = time.monotonic() + 60
        while not all(self.all_up(namespace) for namespace in (self.here, self.there)):  # the kernel takes a moment
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def all_up(self, namespace: str) -> bool:
        up = {link["ifname"] for link in json.loads(ip("-n", namespace, "-j", "link")) if link["operstate"] == "UP"}
        return up >= set(DEVICES)

    def test_eight_ranks_use_the_rail_that_their_rank_counts_out_and_no_other(self) -> None:
        script = Path(__file__).parent / "sglang_ranks.py"
        inside = ("ip", "netns", "exec")
        with Kvlaned(listen="10.78.0.2:13700", under=(*inside, self.there), KVLANE_RAILS=",".join(DEVICES)) as node:
            done = subprocess.run(
                [*inside, self.here, sys.executable, script, node.address, *DEVICES],
                stdout=subprocess.PIPE,
                text=True,
                timeout=300,
            )
        self.assertEqual(done.returncode, 0)
        rows = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(len(rows), 8)
        for rank, (pages, grew) in enumerate(rows):
            with self.subTest(rank=rank, grew=grew):
                self.assertEqual(pages, 64)
                self.assertGreaterEqual(grew.pop(rank % 4), 64 * PAGE_BYTES)
                self.assertLess(sum(grew), PAGE_BYTES)  # keepalive of the others


if __name__ == "__main__":
    unittest.main()
