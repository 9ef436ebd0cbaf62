"""Dead letters of a share partition that are still to be written (KIP-1191).

Rules:

- A dead letter is written only when it is persistent that its record is ARCHIVING. So a leader that
  comes later finds every record whose dead letter may be missing, and writes it, perhaps again.
- What a failed write had is in the next one.

Source: SharePartition.initiateDLQAndArchive of Kafka.
"""

from typing import NamedTuple


class DeadLetters(NamedTuple):
    """Records that each become a dead letter, by the first and last offset.

    A member has rejected them, or else no delivery is left.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool


class DeadLetterQueue:
    """Records that are ARCHIVING: not yet in a write, in a write, and due."""

    __slots__ = ("_in_write", "due", "unwritten")

    def __init__(self) -> None:
        self.unwritten: list[DeadLetters] = []
        self.due: list[DeadLetters] = []
        self._in_write: list[DeadLetters] = []

    def begin_write(self) -> None:
        """A write begins that has all of ``unwritten``."""
        assert not self._in_write, self._in_write  # one write at a time
        self._in_write, self.unwritten = self.unwritten, []

    def written(self) -> None:
        """The write has ended well: its dead letters are due."""
        self.due += self._in_write
        self._in_write = []

    def not_written(self) -> None:
        """The write has failed."""
        self.unwritten = [*self._in_write, *self.unwritten]
        self._in_write = []

    def take(self) -> list[DeadLetters]:
        """Those that are due; they are the caller's."""
        due, self.due = self.due, []
        return due
