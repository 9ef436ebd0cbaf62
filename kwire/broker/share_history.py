"""What has become of the records of share groups on this broker, and why some came again.

Rules: as in ``RebalanceHistory``, the latest events of the groups with the most recent ones are
kept, and the counts of as many groups. A restart, and another leader, begin anew.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kwire.broker.partition import Partition
from kwire.coordinator.rebalance_history import GROUPS_KEPT, GroupEvent, RebalanceHistory
from kwire.share.partition import Acquired, SharePartition
from kwire.share.run import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, Transition

RANGES_SHOWN = 5
"""So many ranges of offsets a text names."""


class Held(NamedTuple):
    """Records that a member has, or had."""

    first: int
    last: int
    member: str
    deliveries: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class ShareCounts:
    """How many records of a group were delivered, and what became of them.

    ``redelivered`` are those of ``acquired`` that were delivered before. Those whose lock
    ``expired`` are not among the ``released`` ones; they too may be ``archived``. ``dead_letters``
    are written, in as many ``dead_letter_requests``, without the ``dead_letter_failures`` of them.
    """

    __slots__ = (
        *("acknowledged", "acquired", "archived", "expired", "redelivered", "released"),
        *("dead_letter_failures", "dead_letter_requests", "dead_letters"),
    )

    def __init__(self) -> None:
        self.acquired = self.redelivered = 0
        self.acknowledged = self.released = self.archived = self.expired = 0
        self.dead_letters = self.dead_letter_requests = self.dead_letter_failures = 0


class ShareHistory:
    """The events and the counts of share groups."""

    def __init__(self) -> None:
        self._events = RebalanceHistory()
        self._counts: dict[str, ShareCounts] = {}

    def events_of(self, group_id: str) -> list[GroupEvent]:
        """The events of a group, the oldest first."""
        return self._events.events_of(group_id)

    def counts_of(self, group_id: str) -> ShareCounts:
        """The counts of a group; zeros for an unknown one."""
        return self._counts.get(group_id) or ShareCounts()

    def counts(self) -> Iterable[tuple[str, ShareCounts]]:
        """The counts of every group."""
        return self._counts.items()

    def _counted(self, group_id: str) -> ShareCounts:
        counts = self._counts.get(group_id)
        if counts is None:
            if len(self._counts) >= GROUPS_KEPT:
                del self._counts[next(iter(self._counts))]
            counts = self._counts[group_id] = ShareCounts()
        return counts

    def _add(self, share: SharePartition, partition: Partition, now_ms: int, text: str) -> None:
        place = f"{partition.topic}-{partition.index}"
        event = GroupEvent(now_ms, f"{place}: {text}", partition.topic)
        self._events.add_event(share.key.group_id, event)

    def loaded(self, share: SharePartition, partition: Partition, now_ms: int) -> None:
        """A partition was loaded."""
        text = f"this broker begins to serve it, in leader epoch {partition.leader_epoch}"
        if share.start_offset < partition.high_watermark:
            text += f": what isn't done from offset {share.start_offset} on is delivered again, "
            text += "also if a member had it"
        self._add(share, partition, now_ms, text)

    def acquired(self, share: SharePartition, acquired: Iterable[Acquired]) -> None:
        """A member has acquired records."""
        counts = self._counted(share.key.group_id)
        for first, last, delivery_count in acquired:
            counts.acquired += last - first + 1
            if delivery_count > 1:
                counts.redelivered += last - first + 1

    def settled(
        self,
        share: SharePartition,
        partition: Partition,
        transitions: Iterable[Transition],
        now_ms: int,
    ) -> None:
        """Acknowledgements were written; ``commit`` comes next."""
        counts = self._counted(share.key.group_id)
        again: list[Held] = []
        archived: list[Held] = []
        for transition in transitions:
            for run in transition.runs:
                if run.pending is ACKNOWLEDGED:
                    counts.acknowledged += run.size
                elif run.pending is AVAILABLE:
                    again.append(Held(run.first, run.last, run.member, run.count))
                elif run.pending in (ARCHIVED, ARCHIVING):
                    archived.append(Held(run.first, run.last, run.member, run.count))
        counts.released += _size(again)
        counts.archived += _size(archived)
        if again:
            text = f"{_members(again)} released {_offsets(again)}: to be delivered again"
            self._add(share, partition, now_ms, f"{text}, {_deliveries(again, share)}")
        if archived:
            text = f"{_members(archived)} did not accept {_offsets(archived)}: archived"
            self._add(share, partition, now_ms, f"{text}, {_deliveries(archived, share)}")

    def dead_letters_tried(self, group_id: str, written: int) -> None:
        """So many dead letters were written together; 0 if that failed."""
        counts = self._counted(group_id)
        counts.dead_letters += written
        counts.dead_letter_requests += 1
        counts.dead_letter_failures += not written

    def session_ended(
        self, share: SharePartition, partition: Partition, held: Sequence[Held], now_ms: int
    ) -> None:
        """A session has ended, and what its member ``held`` was released."""
        if not held:
            return
        self._counted(share.key.group_id).released += _size(held)
        text = f"{_members(held)} is gone or has closed its session: {_offsets(held)} to be "
        self._add(
            share, partition, now_ms, f"{text}delivered again, and that delivery is not counted"
        )

    def expired(
        self, share: SharePartition, partition: Partition, held: Sequence[Held], now_ms: int
    ) -> None:
        """Locks on records that members ``held`` have ended."""
        if not held:
            return
        counts = self._counted(share.key.group_id)
        counts.expired += _size(held)
        last = [one for one in held if one.deliveries >= share.limits.delivery_limit]
        again = [one for one in held if one.deliveries < share.limits.delivery_limit]
        counts.archived += _size(last)
        for some, follows in ((again, "to be delivered again"), (last, "archived")):
            if some:
                text = f"the lock of {_members(some)} on {_offsets(some)} has ended: {follows}"
                self._add(share, partition, now_ms, f"{text}, {_deliveries(some, share)}")


def held_by(share: SharePartition, member: str) -> list[Held]:
    """What a member holds, without what it has acknowledged."""
    return [
        Held(run.first, run.last, run.member, run.count)
        for run in share.runs
        if run.state is ACQUIRED and run.member == member and run.pending is None
    ]


def held_until(share: SharePartition, now_ms: int) -> list[Held]:
    """What members hold whose locks end now."""
    return [
        Held(run.first, run.last, run.member, run.count)
        for run in share.runs
        if run.state is ACQUIRED and run.deadline_ms <= now_ms and run.pending is None
    ]


def _size(held: Iterable[Held]) -> int:
    return sum(one.size for one in held)


def _members(held: Iterable[Held]) -> str:
    names = list(dict.fromkeys(one.member for one in held))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"member {names[0]}{more}"


def _offsets(held: Sequence[Held]) -> str:
    """The offsets in words: ``offset 3``, ``offsets 3-5, 9``."""
    ranges: list[list[int]] = []
    for one in held:
        if ranges and ranges[-1][1] + 1 == one.first:
            ranges[-1][1] = one.last
        else:
            ranges.append([one.first, one.last])
    shown = [f"{a}-{b}" if a != b else str(a) for a, b in ranges[:RANGES_SHOWN]]
    more = f" and {len(ranges) - RANGES_SHOWN} more ranges" if len(ranges) > RANGES_SHOWN else ""
    plural = "s" if _size(held) > 1 else ""
    return f"offset{plural} {', '.join(shown)}{more}"


def _deliveries(held: Iterable[Held], share: SharePartition) -> str:
    most = max(one.deliveries for one in held)
    return f"after delivery {most} of at most {share.limits.delivery_limit}"
