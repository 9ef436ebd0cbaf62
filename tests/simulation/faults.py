"""The faults of a run: each has a number, and any of them can be left out of the same run.

Rules:

- A fault is drawn and numbered whether it happens or is left out. ``3.2`` is the second one of the
  third round.
- Each round of a scenario draws from a generator of its own. So a fault that is left out changes
  what brokers and clients do, but not which faults come in the rounds after it.
- Only faults that begin in ``numbered`` can be left out. All others are what a test is about.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple


class Fault(NamedTuple):
    """A fault that happened: its number, and a note of when and what."""

    number: str
    note: str


class Faults:
    """The faults of one run; with ``only`` those that it doesn't name are left out."""

    def __init__(
        self, seed: int, note: Callable[[str], str], only: Collection[str] | None = None
    ) -> None:
        self.random = Random(seed)
        """What scenarios draw from."""
        self.begun: list[Fault] = []
        """The numbered ones that happened."""
        self._seed = seed
        self._note = note
        self._only = only
        self._is_numbered = False
        self._round = self._place = 0

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """Let the faults that begin in this block have numbers."""
        self._begin_round()
        self._is_numbered = True
        try:
            yield
        finally:
            self._is_numbered = False

    def rounds(self, count: int) -> Iterator[int]:
        """Go through the rounds of a scenario."""
        for number in range(count):
            self._begin_round()
            yield number

    def _begin_round(self) -> None:
        self._round, self._place = self._round + 1, 0
        self.random.seed(f"{self._seed} {self._round}")

    def happens(self, what: str) -> bool:
        """Note that a fault is drawn; whether it is to happen."""
        if not self._is_numbered:
            self._note(what)
            return True
        self._place += 1
        number = f"{self._round}.{self._place}"
        if self._only is not None and number not in self._only:
            self._note(f"[{number}] left out: {what}")
            return False
        self.begun.append(Fault(number, self._note(f"[{number}] {what}")))
        return True
