# SPDX-License-Identifier: BSD-3-Clause
"""kvlane's NIXL backend when the other agent is stopped, killed, started again, or let go of."""

import time

from nixl_agent import Agent, NixlError
from nixl_stage import MIB, Stage

SIZE = 64 * MIB
EE = 0xEE


class Trouble(Stage):
    def warm_pair(self, rails: str, **settings: str) -> tuple[Agent, Agent]:
        here, there = self.pair(SIZE, env={"KVLANE_RAILS": rails, **settings})
        here.set(0x11, 0, SIZE)
        there.set(0x22, 0, SIZE)
        self.assertEqual(here.move("WRITE", "there", there.base(), [(0, 0, 4096)]), "DONE")
        return here, there

    def all_is_well(self, here: Agent, there: Agent, base: int) -> None:
        """A request works, and what was on its way to either side before it has arrived."""
        until = time.monotonic() + 60
        state = ""
        while state != "DONE" and time.monotonic() < until:
            try:
                number = here.make("WRITE", "there", base, [(0, SIZE - 4096, 4096)])
                here.post(number, b"over")
                state = here.wait(number)
                here.release(number)
            except NixlError:
                pass  # it is connected again by itself, as soon as the other side answers
        self.assertEqual(state, "DONE")
        self.assertEqual(there.notes(1), [("here", b"over")])

    def nothing_moves_any_more(self, here: Agent, there: Agent, base: int) -> None:
        """Of a request that is over, once the other agent, which was stopped, goes on; the last of a test."""
        here.set(EE, 0, 63 * MIB)
        there.go_on()
        self.all_is_well(here, there, base)
        self.assertEqual(there.count(EE, 0, 63 * MIB), 0)
        self.assertEqual(here.count(EE, 0, 63 * MIB), 63 * MIB)
        here.end()
        there.end()

    def test_a_release_in_flight_is_quiet(self) -> None:
        for rails in ("tcp", "auto"):
            for op in ("WRITE", "READ"):
                with self.subTest(rails=rails, op=op):
                    here, there = self.warm_pair(rails)
                    base = there.base()
                    blocks = [(i * MIB, (62 - i) * MIB, MIB) for i in range(63)]
                    number = here.make(op, "there", base, blocks)
                    there.stop()
                    self.assertEqual(here.post(number), "PROC")
                    self.assertEqual(here.wait(number, 0.1), "PROC")
                    started = time.monotonic()
                    here.release(number)
                    self.assertLess(time.monotonic() - started, 10)
                    self.nothing_moves_any_more(here, there, base)

    def test_an_agent_that_is_stopped_costs_the_deadline(self) -> None:
        for rails in ("tcp", "auto"):
            for op in ("WRITE", "READ"):
                with self.subTest(rails=rails, op=op):
                    here, there = self.warm_pair(rails, KVLANE_TIMEOUT="1s")
                    base = there.base()
                    number = here.make(op, "there", base, [(0, 0, 63 * MIB)])
                    there.stop()
                    self.assertEqual(here.post(number), "PROC")
                    with self.assertRaisesRegex(NixlError, "Backend"):
                        here.wait(number, 30)
                    self.nothing_moves_any_more(here, there, base)

    def test_an_agent_that_is_killed_is_noticed_and_may_come_back(self) -> None:
        for rails in ("tcp", "auto"):
            for op in ("WRITE", "READ"):
                with self.subTest(rails=rails, op=op):
                    here, there = self.warm_pair(rails)
                    base = there.base()
                    number = here.make(op, "there", base, [(0, 0, 63 * MIB)])
                    there.stop()  # so that it dies in the middle of it
                    self.assertEqual(here.post(number), "PROC")
                    there.kill()
                    with self.assertRaisesRegex(NixlError, "RemoteDisconnect"):
                        here.wait(number, 30)
                    with self.assertRaisesRegex(NixlError, "RemoteDisconnect|NotFound"):
                        here.make(op, "there", base, [(0, 0, 4096)])
                    here.release(number)
                    here.remove("there")
                    again = self.agent("there", SIZE, env={"KVLANE_RAILS": rails})
                    self.assertEqual(here.add(again.metadata()), "there")
                    here.fill(5, 0, MIB)
                    self.assertEqual(here.move("WRITE", "there", again.base(), [(0, MIB, MIB)]), "DONE")
                    self.assertTrue(again.is_filled(5, MIB, MIB))
                    here.end()
                    again.end()

    def test_agents_are_let_go_of_and_met_again_under_traffic(self) -> None:
        here, there = self.warm_pair("auto")
        metadata, base = there.metadata(), there.base()
        files = here.files()
        for turn in range(40):
            number = here.make("WRITE", "there", base, [(0, MIB, 16 * MIB)])
            here.post(number)
            if turn % 2:
                self.assertEqual(here.wait(number), "DONE")
                here.release(number)
            here.remove("there")
            if turn % 2 == 0:  # it was under way
                try:
                    self.assertNotEqual(here.wait(number), "PROC")
                except NixlError:
                    pass
                here.release(number)
            here.add(metadata)
        here.fill(6, 0, MIB)
        self.assertEqual(here.move("WRITE", "there", base, [(0, 0, MIB)]), "DONE")
        self.assertTrue(there.is_filled(6, 0, MIB))
        self.assertLess(here.files() - files, 20)
