"""The coordinator of the share partitions whose state is in one partition of
``__share_group_state``.

Rules:

- Every operation decides by the present state, and its record makes the change when it is replayed.
  A KafkaError is the answer to the request, and then nothing has changed.
- A share partition has a state once it is initialized. Each initialization has a state epoch: a
  leader that read the state before a later initialization may not write any more.
- A leader reads the state with its leader epoch. From then on, an earlier leader may neither read
  nor write.
- Each write is an update, until ``updates_per_snapshot`` updates follow a snapshot. Then the next
  one is a snapshot. A state that isn't written any more gets further snapshots while others are
  written, so that the records before it can be pruned (``oldest_needed``).
- A state ends with a tombstone: when it is deleted, or after its topic is gone.

Source: ShareCoordinatorShard, ShareCoordinatorOffsetsManager of Kafka.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kwire.coordinator.coordinator import Coordinator
from kwire.coordinator.effects import Effects
from kwire.coordinator.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record
from kwire.share.key import SharePartitionKey
from kwire.share.state_batches import RecordState, StateBatch, merge_batches
from kwire.share.state_records import (
    SNAPSHOT,
    parse_key,
    parse_snapshot,
    parse_update,
    read_batches,
    snapshot_record,
    update_record,
    written_batches,
)

UNKNOWN = -1
"""An epoch, offset or count that a request doesn't say."""

MOST_RECORDS = 500
"""How many records are written together where no request causes them."""


class ShareState:
    """What is kept of one share partition; ``snapshot_offset`` is that of its last snapshot."""

    __slots__ = (
        "batches",
        "create_ms",
        "delivery_complete_count",
        "leader_epoch",
        "snapshot_epoch",
        "snapshot_offset",
        "start_offset",
        "state_epoch",
        "updates",
        "write_ms",
    )

    def __init__(self, value: ShareSnapshotValue, offset: int) -> None:
        self.snapshot_epoch = value.snapshot_epoch
        self.state_epoch = value.state_epoch
        self.leader_epoch = value.leader_epoch
        self.start_offset = value.start_offset
        self.delivery_complete_count = value.delivery_complete_count
        self.create_ms = value.create_timestamp
        self.write_ms = value.write_timestamp
        self.batches = read_batches(value.state_batches)
        self.updates = 0
        self.snapshot_offset = offset

    def update(self, value: ShareUpdateValue) -> None:
        """Make the changes of an update; a field with -1 stays as it is."""
        self.leader_epoch = max(self.leader_epoch, value.leader_epoch)
        if value.start_offset != UNKNOWN:
            self.start_offset = value.start_offset
        if value.delivery_complete_count != UNKNOWN:
            self.delivery_complete_count = value.delivery_complete_count
        merge_batches(self.batches, read_batches(value.state_batches), self.start_offset)
        self.updates += 1


class StateWrite(NamedTuple):
    """What the leader of a partition writes; -1 stands for what it doesn't say."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = UNKNOWN
    batches: Sequence[StateBatch] = ()


class StateSummary(NamedTuple):
    """How far a group is in a partition; ``start_offset`` is -1 without a state."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


NO_STATE = StateSummary(0, 0, UNKNOWN, UNKNOWN)


class ShareStateCoordinator(Coordinator):
    """The share partitions of one partition; ``states`` is for reading only.

    ``archiving`` has those with records that are ARCHIVING: dead letters may be missing (KIP-1191).
    """

    def __init__(self, updates_per_snapshot: int) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.archiving: set[SharePartitionKey] = set()

    # Requests

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, date_ms: int
    ) -> Effects:
        """Begin a share partition anew; KafkaError (FENCED_STATE_EPOCH) for an older epoch."""
        state = self.states.get(key)
        if state is not None and UNKNOWN != state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        value = ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch + 1 if state else 0,
            state_epoch=state_epoch,
            leader_epoch=state.leader_epoch if state else 0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN if start_offset == UNKNOWN else 0,
            create_timestamp=date_ms,
            write_timestamp=date_ms,
        )
        return _written(key, value)

    def read(
        self, key: SharePartitionKey, leader_epoch: int, date_ms: int
    ) -> tuple[ShareState, Effects | None]:
        """A share partition's state for its leader; the effects fence earlier leaders.

        Raises KafkaError: INVALID_REQUEST without a state, FENCED_LEADER_EPOCH.
        """
        state = self._state(key, "Read")
        _check_leader(state, leader_epoch)
        if leader_epoch in (UNKNOWN, state.leader_epoch):
            return state, None
        noted = StateWrite(state.state_epoch, leader_epoch, UNKNOWN)
        return state, self._write(key, state, noted, date_ms)

    def write(self, key: SharePartitionKey, wanted: StateWrite, date_ms: int) -> Effects:
        """Change a share partition's state for its leader.

        Raises KafkaError: INVALID_REQUEST without a state, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
        """
        state = self._state(key, "Write")
        _check_leader(state, wanted.leader_epoch)
        if UNKNOWN != wanted.state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        return self._write(key, state, wanted, date_ms)

    def delete(self, key: SharePartitionKey) -> Effects:
        """End a share partition's state, if it has one."""
        effects = Effects()
        if key in self.states:
            effects.records.append(snapshot_record(key, None))
        return effects

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """A share partition's state, None if it has none; no leader is fenced."""
        return self.states.get(key)

    def _state(self, key: SharePartitionKey, what: str) -> ShareState:
        state = self.states.get(key)
        if state is None:
            text = f"{what} operation on uninitialized share partition not allowed."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return state

    def _write(
        self, key: SharePartitionKey, state: ShareState, wanted: StateWrite, date_ms: int
    ) -> Effects:
        """The record of a change: an update, or a snapshot if enough updates came before."""
        if state.updates >= self.updates_per_snapshot:
            return _written(key, _snapshot(state, wanted, date_ms, date_ms))
        update = ShareUpdateValue(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.delivery_complete_count,
            state_batches=written_batches(wanted.batches),
        )
        effects = Effects()
        effects.records.append(update_record(key, update))
        return effects

    # Work that no request causes

    def forget_topics(self, is_gone: Callable[[bytes], bool]) -> Iterator[Effects]:
        """End the states of partitions whose topics are gone, piece by piece."""
        gone = [key for key in self.states if is_gone(key.topic_id)]
        for first in range(0, len(gone), MOST_RECORDS):
            effects = Effects(is_atomic=False)
            piece = gone[first : first + MOST_RECORDS]
            effects.records += [snapshot_record(key, None) for key in piece if key in self.states]
            yield effects

    def snapshot_cold(self, age_ms: int, date_ms: int) -> Iterator[Effects]:
        """Write each state that has had no snapshot for ``age_ms`` once more, piece by piece.

        Its creation date stays, which tells such a snapshot from that of a state in use. If there
        are no others, nobody writes, and there is nothing to prune.
        """
        if all(state.create_ms != state.write_ms for state in self.states.values()):
            return
        cold = [key for key, state in self.states.items() if date_ms - state.write_ms >= age_ms]
        nothing = StateWrite(UNKNOWN, UNKNOWN, UNKNOWN)
        for first in range(0, len(cold), MOST_RECORDS):
            effects = Effects(is_atomic=False)
            for key in cold[first : first + MOST_RECORDS]:
                state = self.states.get(key)
                if state is not None:
                    value = _snapshot(state, nothing, state.create_ms, date_ms)
                    effects.records.append(snapshot_record(key, value))
            yield effects

    def oldest_needed(self, end_offset: int) -> int:
        """The first offset whose record is still needed; ``end_offset`` if none is."""
        return min((state.snapshot_offset for state in self.states.values()), default=end_offset)

    # What the runtime calls

    def replay(self, record: Record, producer_id: int, now_ms: int, *, loading: bool) -> None:
        """Apply a record; MalformedRequest if it is damaged."""
        parsed = parse_key(record.key or b"")
        if parsed is None:
            return
        kind, key = parsed
        state = self.states.get(key)
        if record.value is None:
            self.states.pop(key, None)
            self.archiving.discard(key)
        elif kind == SNAPSHOT:
            new = ShareState(parse_snapshot(record.value), record.offset)
            if state is not None:
                new.leader_epoch = max(new.leader_epoch, state.leader_epoch)
            self.states[key] = new
            self._note_archiving(key, new)
        elif state is not None:
            value = parse_update(record.value)
            state.update(value)
            if key in self.archiving or any(
                batch.delivery_state == RecordState.ARCHIVING for batch in value.state_batches
            ):
                self._note_archiving(key, state)

    def _note_archiving(self, key: SharePartitionKey, state: ShareState) -> None:
        if any(batch.delivery_state == RecordState.ARCHIVING for batch in state.batches):
            self.archiving.add(key)
        else:
            self.archiving.discard(key)


def _check_leader(state: ShareState, leader_epoch: int) -> None:
    if UNKNOWN != leader_epoch < state.leader_epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _snapshot(
    state: ShareState, wanted: StateWrite, create_ms: int, write_ms: int
) -> ShareSnapshotValue:
    """The whole state as it is after a write."""
    start_offset = state.start_offset if wanted.start_offset == UNKNOWN else wanted.start_offset
    count = wanted.delivery_complete_count
    batches = list(state.batches)
    merge_batches(batches, wanted.batches, start_offset)
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch + 1,
        state_epoch=max(state.state_epoch, wanted.state_epoch),
        leader_epoch=max(state.leader_epoch, wanted.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=state.delivery_complete_count if count == UNKNOWN else count,
        create_timestamp=create_ms,
        write_timestamp=write_ms,
        state_batches=written_batches(batches),
    )


def _written(key: SharePartitionKey, value: ShareSnapshotValue) -> Effects:
    effects = Effects()
    effects.records.append(snapshot_record(key, value))
    return effects


def summary_of(state: ShareState | None) -> StateSummary:
    """What a summary tells of a state."""
    if state is None:
        return NO_STATE
    return StateSummary(
        state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count
    )
