"""How two schemas are compared, whatever their type: pair by pair of their parts.

Rules:

- A pair of parts is told once, at the path where it stands first, so recursive schemas end. The
  steps are bounded by ``MAX_STEPS``, and the depth by ``MAX_COMPARED_DEPTH``.
- A pair that is being compared counts as readable. If it turns out not to be, the whole is done
  again with what is known, until nothing new is found.
- While several ways are tried, such as the branches of a union, nothing is told: one that doesn't
  fit is no news if another one does.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kwire.registry.schema_types.parsed import (
    MAX_COMPARED_DEPTH,
    MAX_FOUND,
    MAX_STEPS,
    Incompatibility,
    TooComplex,
)

_TOO_DEEP = f"the types of the schemas are nested more than {MAX_COMPARED_DEPTH} deep"

Part = TypeVar("Part")


class Comparison(ABC, Generic[Part]):
    """Compares parts, which are known by their identity, of a reader's and a writer's schema."""

    def __init__(self) -> None:
        self._steps = 0
        self._unfit: set[tuple[Part, Part]] = set()
        """Pairs that are known not to fit; they stay through all rounds."""
        self._start()

    def _start(self) -> None:
        self._found: list[Incompatibility] = []
        self._has_new = False
        self._seen: set[tuple[Part, Part, bool]] = set()
        """Pairs, and whether they were only tried."""
        self._trying = 0
        self._depth = 0

    def unreadable(self, reader: Part, writer: Part, path: str) -> list[Incompatibility]:
        """Up to ``MAX_FOUND`` places that the reader can't read; TooComplex."""
        try:
            while True:
                self._start()
                self.compare(reader, writer, path)
                if not self._has_new:
                    return self._found
        except RecursionError as error:
            raise TooComplex(_TOO_DEEP) from error

    @abstractmethod
    def compared(self, reader: Part, writer: Part, path: str) -> bool:
        """Whether a reader's part reads a writer's, with ``compare`` for the parts within."""

    def compare(self, reader: Part, writer: Part, path: str) -> bool:
        """Whether a reader's part reads a writer's; if not, it is noted why."""
        self.count()
        pair, look = (reader, writer), (reader, writer, self._trying > 0)
        if look in self._seen:
            return pair not in self._unfit
        if self._depth == MAX_COMPARED_DEPTH:
            raise TooComplex(_TOO_DEEP)
        self._seen.add(look)
        self._depth += 1
        fits = self.compared(reader, writer, path)
        self._depth -= 1
        if not fits and pair not in self._unfit:
            self._unfit.add(pair)
            self._has_new = True
        return fits

    def count(self, steps: int = 1) -> None:
        """Count steps; TooComplex."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooComplex(f"to compare the schemas takes more than {MAX_STEPS:,} steps")

    def some(self, ways: Iterable[Callable[[], bool]]) -> bool:
        """Whether one of several ways fits; nothing is noted."""
        self._trying += 1
        fits = any(way() for way in ways)
        self._trying -= 1
        return fits

    def note(self, kind: str, path: str, text: str) -> bool:
        """Note what can't be read; False, for the caller to return."""
        if not self._trying and len(self._found) < MAX_FOUND:
            self._found.append(Incompatibility(kind, path or "/", text))
        return False
