"""What the text scripts of all coordinators share: commands, each followed by its trace, indented.

A command is a verb, plain words, and ``key=value`` words; what follows ``#`` is a remark. The verb
names a method, ``do_<verb>(plain, given)``, which adds to the trace.
"""

import textwrap
from abc import ABC, abstractmethod
from typing import Any

from kwire.errors import KafkaError
from kwire.record.records import Record

START_MS = 1_000_000

Words = dict[str, str]


TICKS_AT_ONCE = 200
"""More ticks, each a millisecond after the last, than any script has groups and members for."""


class Script(ABC):
    """A coordinator whose log is a list; ``load`` makes one that has replayed it."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.trace: list[str] = []
        self.writes_fail = False
        self.ids = 0

    coordinator: Any

    @abstractmethod
    def load(self) -> Any:
        """A coordinator that has replayed the log."""

    def run(self, script: str) -> None:
        """Carry a script out; AssertionError if its trace is another."""
        expected = textwrap.dedent(script).strip()
        actual: list[str] = []
        for line in expected.splitlines():
            if line.startswith(" ") or not line:
                continue
            actual.append(line)
            actual += [f"    {seen}" for seen in self.command(line)]
        assert "\n".join(actual) == expected

    def command(self, line: str) -> list[str]:
        """Carry one command out; its trace."""
        self.trace = []
        verb, *words = line.split("#")[0].split()
        plain = [word for word in words if "=" not in word]
        given = dict(word.split("=", 1) for word in words if "=" in word)
        try:
            self.carry_out(verb, plain, given)
        except KafkaError as error:
            self.note_refusal(f"{plain[0]} {verb}" if plain else verb, error)
        return self.trace

    def carry_out(self, verb: str, plain: list[str], given: Words) -> None:
        """Do what a command says."""
        getattr(self, f"do_{verb}")(plain, given)

    def note_refusal(self, who: str, error: KafkaError) -> None:
        """A command was refused."""
        self.trace.append(f"{who}: {error.code.name}")

    def new_id(self) -> str:
        """1, 2, 3 …"""
        self.ids += 1
        return str(self.ids)

    def do_restart(self, plain: list[str], given: Words) -> None:
        """The coordinator is gone; another one loads what was written."""
        self.coordinator = self.load()

    def do_writes(self, plain: list[str], given: Words) -> None:
        """Writes fail or work from now on."""
        self.writes_fail = plain == ["fail"]


class TickingScript(Script):
    """A script whose coordinator says when it has something to do."""

    @abstractmethod
    def take(self, effects: Any) -> None:
        """What the runtime does with effects."""

    def do_after(self, plain: list[str], given: Words) -> None:
        """Time passes; what becomes due is done when it is."""
        until_ms = self.now_ms + round(float(plain[0]) * 1000)
        began_ms = self.now_ms
        ticks = 0
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= until_ms:
            ticks = ticks + 1 if due <= self.now_ms + 1 else 0
            assert ticks < TICKS_AT_ONCE, "the coordinator is due again and again and does nothing"
            self.now_ms = max(due, self.now_ms)
            seen = len(self.trace)
            self.take(self.coordinator.tick(self.now_ms))
            after = f"+{(self.now_ms - began_ms) / 1000:g}s "
            self.trace[seen:] = [after + line for line in self.trace[seen:]]
        self.now_ms = until_ms
