# SPDX-License-Identifier: BSD-3-Clause
"""What a witness outside of kvlane sees of the sg lane while pages of many segments move."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from support import BUILD, Kvlaned  # noqa: E402

import kvlane  # noqa: E402

DEPTHS = [1, 4, 16]
SG = 2  # lanes are numbered as in src/lane


class Depth(unittest.TestCase):
    def test_an_sg_endpoint_has_one_op_at_a_time_at_every_depth(self) -> None:
        script = Path(__file__).parent / "sglang_depth.py"
        limits = dict(KVLANE_DEPTH="16", KVLANE_SG_ENDPOINTS="16")
        with tempfile.TemporaryDirectory() as folder, Kvlaned("256M", **limits) as node:
            out = Path(folder) / "report.json"
            # libucp too, which the witness looks for behind itself: a ctypes library's own are not seen from there
            preload = f"{BUILD / '.libs' / 'libinterpose.so'} {kvlane.ucx()[1]}"
            done = subprocess.run(
                [sys.executable, script, node.address],
                env=os.environ | {"LD_PRELOAD": preload, "KVLANE_TEST_INTERPOSE_OUT": str(out)},
                stdout=subprocess.PIPE,
                text=True,
                timeout=300,
            )
            self.assertEqual(done.returncode, 0)
            report = json.loads(out.read_text())
        rows = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(rows, [[rails, 128, 128, d, d] for rails in ("tcp", "shm") for d in DEPTHS])
        workers = [worker["id"] for worker in report["workers"] if worker["lane"] == SG]
        self.assertEqual(len(workers), len(rows))
        for worker, (rails, _, _, depth, _) in zip(workers, rows):
            with self.subTest(rails=rails, depth=depth):
                endpoints = [ep for ep in report["endpoints"] if ep["worker"] == worker]
                self.assertEqual(len(endpoints), depth)
                self.assertGreaterEqual(sum(ep["data"]["total"] for ep in endpoints), 2 * 128)
                self.assertEqual({ep["data"]["max"] for ep in endpoints if ep["data"]["total"]}, {1})


if __name__ == "__main__":
    unittest.main()
