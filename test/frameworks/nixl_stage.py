# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the NIXL backend share: kvlane's plugin beside NIXL's own, and pairs of agents."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from nixl_agent import Agent, NixlError

SRC = Path(os.environ["KVL_SRC"])
BUILD = Path(os.environ["KVL_BUILD"])
FAKE_GPU = BUILD / ".libs" / "libfakecuda.so"
PLUGIN = BUILD / ".libs" / "libplugin_KVLANE.so"
STORE_PLUGIN = PLUGIN.with_name("libplugin_KVLANEKV.so")
MIB = 1 << 20

_folder = tempfile.TemporaryDirectory()


def site_packages() -> Path:
    spec = importlib.util.find_spec("nixl_cu12")
    assert spec and spec.origin, "the environment has no nixl-cu12"
    return Path(spec.origin).parent.parent


def their_plugins() -> Path:
    return site_packages() / ".nixl_cu12.mesonpy.libs" / "plugins"


def plugins_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """kvlane_nixl_plugins with the Python of the tests"""
    tool = SRC / "plugin" / "nixl" / "kvlane_nixl_plugins"
    return subprocess.run([sys.executable, str(tool), *arguments], capture_output=True, text=True, timeout=60)


def plugin_folder() -> str:
    """A NIXL_PLUGIN_DIR with NIXL's plugins and kvlane's, made by kvlane_nixl_plugins; once."""
    done = plugins_tool("--plugin", str(PLUGIN), "--directory", _folder.name)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().split("NIXL_PLUGIN_DIR=")[1]


class Stage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        os.environ["NIXL_PLUGIN_DIR"] = plugin_folder()

    def agent(self, name: str, size: int = 4 * MIB, **more: object) -> Agent:
        agent = Agent(name, size, **more)  # type: ignore[arg-type]
        self.addCleanup(agent.end)
        agent.start()
        return agent

    def refused(self, **more: object) -> str:
        """An agent that cannot start: what it said."""
        agent = Agent("here", MIB, **more)  # type: ignore[arg-type]
        with self.assertRaises(NixlError):
            agent.start()
        return agent.end()

    def pair(self, size: int = 4 * MIB, **more: object) -> tuple[Agent, Agent]:
        """(here, there): here knows there."""
        here, there = self.agent("here", size, **more), self.agent("there", size, **more)
        here.add(there.metadata())
        return here, there
