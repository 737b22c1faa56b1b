# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the Python side share: a kvlaned of their own, and a Python with our library."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import IO

SRC = Path(os.environ.get("KVL_SRC", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("KVL_BUILD", SRC / "build" / "debian"))
PACKAGE = SRC / "plugin" / "python"

os.environ.setdefault("KVLANE_LIBRARY", str(BUILD / ".libs" / "libkvlane.so"))
os.environ.setdefault("UCX_MEM_MMAP_HOOK_MODE", "none")
sys.path.insert(0, str(PACKAGE))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def port() -> int:
    """One for a node that is started again at the same place: none that the kernel hands out to whoever asks
    for any, in the moment between the two."""
    for number in range(10000 + os.getpid() * 13 % 20000, 31000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", number))
                return number
            except OSError:
                continue
    raise RuntimeError("no port is free")


class Kvlaned:
    """A node in a process of its own."""

    def __init__(
        self,
        memory: str = "64M",
        listen: str = "127.0.0.1:0",
        log: IO[str] | None = None,
        under: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self.process = subprocess.Popen(
            [*under, BUILD / "kvlaned", "-l", listen, "-m", memory],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | settings,
            preexec_fn=_die_with_parent,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().removeprefix("ready ").strip()
        if not self.address:
            raise RuntimeError(f"kvlaned did not start: exit {self.process.wait()}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """SIGSTOP, and no thread of it runs any more."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Kvlaned:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class NodeStage(unittest.TestCase):
    """Tests that share a node."""

    memory = "64M"
    node: Kvlaned

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = Kvlaned(cls.memory)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.node.kill()


def python(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A script in a Python of its own."""
    path = os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": path} | env,
    )
