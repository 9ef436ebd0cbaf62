"""Who wrote what in which transaction, who read what, and whether that was exactly once.

Rules of a read_committed history:

- Nothing of an aborted transaction is read, nothing of a committed one is lost, and nothing is read
  twice.
- Of a transaction whose end its producer never learnt all is read, or nothing.
- Within a partition a producer's records are read in the order in which they were written, and
  offsets ascend.
"""

from collections import Counter
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """How a transaction ended, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Read(NamedTuple):
    """One record that a consumer saw."""

    partition: int
    offset: int
    value: str


class History:
    """What happened. Values are unique; the part of a name before ``/`` is the producer's."""

    def __init__(self) -> None:
        self._written: dict[str, list[tuple[int, str]]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._reads: list[Read] = []

    def wrote(self, transaction: str, partition: int, value: str) -> None:
        """A producer wrote a value; a transaction is named ``producer/number``."""
        self._written.setdefault(transaction, []).append((partition, value))
        self._outcomes.setdefault(transaction, Outcome.UNKNOWN)

    def ended(self, transaction: str, outcome: Outcome) -> None:
        """A producer learnt how its transaction ended."""
        self._written.setdefault(transaction, [])
        self._outcomes[transaction] = outcome

    def read(self, partition: int, offset: int, value: str) -> None:
        """A consumer saw a record."""
        self._reads.append(Read(partition, offset, value))

    @property
    def committed_count(self) -> int:
        """Records that have to be read."""
        return sum(
            len(values)
            for transaction, values in self._written.items()
            if self._outcomes[transaction] is Outcome.COMMITTED
        )

    def check(self) -> None:
        """AssertionError, with everything that is wrong, unless this was exactly once."""
        wrong = [*self._wrong_counts(), *self._wrong_order()]
        assert not wrong, "\n".join(wrong[:20])

    def _wrong_counts(self) -> list[str]:
        seen = Counter(read.value for read in self._reads)
        wrong = [f"{value} was read {count} times" for value, count in seen.items() if count > 1]
        known = set()
        for transaction, values in self._written.items():
            outcome = self._outcomes[transaction]
            known.update(value for _, value in values)
            read = sum(1 for _, value in values if value in seen)
            if outcome is Outcome.ABORTED and read:
                wrong.append(f"{read} records of the aborted {transaction} were read")
            elif outcome is Outcome.COMMITTED and read < len(values):
                wrong.append(
                    f"{len(values) - read} records of the committed {transaction} are lost"
                )
            elif read not in (0, len(values)):
                wrong.append(f"{read} of {len(values)} records of {transaction} were read")
        return wrong + [f"{value} was never written" for value in seen if value not in known]

    def _wrong_order(self) -> list[str]:
        wrong: list[str] = []
        place = {
            value: number
            for number, (_, value) in enumerate(
                pair for values in self._written.values() for pair in values
            )
        }
        last_place: dict[tuple[int, str], int] = {}
        last_offset: dict[int, int] = {}
        producer_of = {
            value: transaction.split("/")[0]
            for transaction, values in self._written.items()
            for _, value in values
        }
        for read in self._reads:
            if read.offset <= last_offset.get(read.partition, -1):
                wrong.append(f"{read} comes after offset {last_offset[read.partition]}")
            last_offset[read.partition] = read.offset
            if read.value in place:
                key = read.partition, producer_of[read.value]
                if place[read.value] < last_place.get(key, -1):
                    wrong.append(f"{read} is out of order")
                last_place[key] = place[read.value]
        return wrong
