"""Makes a failed run small: the same seed, with as few of its faults as still break the invariant.

``explained`` is called for a test that has failed, and for no other: a mistake that was put in on
purpose, and is found, costs nothing.
"""

import os
from collections.abc import Sequence
from itertools import count
from shutil import rmtree
from time import monotonic

from tests.simulation.faults import Fault
from tests.simulation.run import Failure, command_for, failure_of
from tests.simulation.shrinking import smallest

LIMIT_VARIABLE = "KWIRE_SHRINK_S"
LIMIT_S = 60.0
"""So many seconds, of real time, after which no further run begins; the variable sets others."""


class Replay:
    """Runs a failed run again, with some of its faults. ``failure`` is the smallest one so far."""

    def __init__(self, failure: Failure, limit_s: float = LIMIT_S) -> None:
        self.failure = failure
        self.runs = 0
        self._first = failure
        self._ends_s = monotonic() + limit_s
        self._numbers = count(1)

    def shrink(self) -> Failure:
        """The smallest failure that was found in time."""
        smallest(self._first.faults, self.fails, self.has_time)
        return self.failure

    def has_time(self) -> bool:
        """Whether another run may begin."""
        return monotonic() < self._ends_s

    def fails(self, faults: Sequence[Fault]) -> bool:
        """Whether the same invariant breaks with these faults alone."""
        self.runs += 1
        root = self._first.root / f"again-{next(self._numbers)}"
        root.mkdir()
        try:
            self._first.run.go(root, [fault.number for fault in faults])
        except BaseException as error:
            found = failure_of(error)
            if isinstance(error, KeyboardInterrupt) or found is None:
                raise
            if found.invariant != self.failure.invariant:
                return False
            self.failure = found
            return True
        finally:
            rmtree(root, ignore_errors=True)
        return False


def explained(error: BaseException) -> str:
    """The fewest faults of a failed run, and how to repeat it; empty for other errors."""
    failure = failure_of(error)
    limit_s = float(os.environ.get(LIMIT_VARIABLE, LIMIT_S))
    if failure is None or not failure.faults or limit_s <= 0:
        return ""
    replay = Replay(failure, limit_s)
    found = replay.shrink()
    numbers = [fault.number for fault in found.faults]
    count_of = f"{len(numbers)} of {len(failure.faults)} faults"
    stopped = "" if replay.has_time() else f"; there may be fewer, but {limit_s:g} s are over"
    lines = [f"{count_of} are enough for {found.invariant}, by {replay.runs} runs{stopped}"]
    lines += [fault.note for fault in found.faults]
    lines.append(f"to repeat it with these alone: {command_for(failure.run.seed, numbers)}")
    return "\n".join(lines)
