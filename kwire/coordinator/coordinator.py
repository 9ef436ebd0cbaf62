"""What the runtime asks of a coordinator, and what one does that has nothing of the sort to do."""

from kwire.coordinator.effects import Effects
from kwire.coordinator.records import Content
from kwire.record.records import Record


class Coordinator:
    """A state machine over one partition, without a clock and without files.

    Its requests return ``Effects``. ``kwire.runtime`` writes their records, and has them replayed.
    """

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Apply a record; MalformedRequest if it is damaged.

        ``producer_id`` is -1 outside of a transaction.
        """
        raise NotImplementedError

    def take_in(self, content: Content, offset: int, producer_id: int, now_ms: int) -> None:
        """Apply ``content``, which was just written as the record at ``offset``; see ``replay``."""
        raise AssertionError(f"a record for replay has content: {content}")

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply the end of a transaction; here no transaction writes into the partition."""

    def begin(self, now_ms: int) -> Effects:
        """Start, after every record has been loaded."""
        return Effects()

    def next_deadline_ms(self) -> int | None:
        """The time of the first timer; None without timers."""
        return None

    def tick(self, now_ms: int) -> Effects:
        """Run the first timer that is due; afterwards it isn't due any more."""
        return Effects()

    def undo(self, effects: Effects, now_ms: int) -> Effects:
        """Roll back effects that couldn't be written; what only ``replay`` changes needs none."""
        return Effects()
