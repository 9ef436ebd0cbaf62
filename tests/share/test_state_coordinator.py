"""The share coordinator: what is written, who is fenced, and what a reload knows again."""

import pytest

from kwire.coordinator.share_state_records import ShareSnapshotValue, ShareUpdateValue
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record
from kwire.share.key import SharePartitionKey, check_coordinator_key
from kwire.share.state_batches import StateBatch
from kwire.share.state_coordinator import ShareStateCoordinator, StateWrite
from kwire.share.state_records import SNAPSHOT, parse_key, parse_snapshot, parse_update

KEY = SharePartitionKey("workers", bytes(range(16)), 3)
OTHER = SharePartitionKey("workers", bytes(range(16)), 4)
ACKNOWLEDGED = 2


class Driven:
    """A coordinator, and the log of its records."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.coordinator = ShareStateCoordinator(updates_per_snapshot)
        self.log: list[Record] = []

    def do(self, effects):
        """Write and replay the records."""
        for one in effects.records:
            record = Record(len(self.log), 0, one.key, one.value)
            self.log.append(record)
            self.coordinator.replay(record, -1, 0, loading=False)

    def reload(self, since: int = 0) -> ShareStateCoordinator:
        """A new coordinator that has read the log from an offset on."""
        new = ShareStateCoordinator(self.updates_per_snapshot)
        for record in self.log[since:]:
            new.replay(record, -1, 0, loading=True)
        return new

    def write(self, *batches, epoch=0, start=-1, state_epoch=0, now=5, key=KEY):
        """A write of the leader."""
        wanted = StateWrite(state_epoch, epoch, start, -1, batches)
        self.do(self.coordinator.write(key, wanted, now))

    def kinds(self) -> list[int]:
        """The types of the records in the log."""
        return [parse_key(record.key)[0] for record in self.log]


@pytest.fixture
def driven() -> Driven:
    """A coordinator with one share partition from offset 10 on."""
    made = Driven()
    made.do(made.coordinator.initialize(KEY, 0, 10, 1))
    return made


def contents(coordinator, key=KEY):
    """All that is known of a share partition."""
    state = coordinator.states[key]
    return (state.state_epoch, state.leader_epoch, state.start_offset, state.batches)


def refused(operation) -> ErrorCode:
    """The error of an operation."""
    with pytest.raises(KafkaError) as error:
        operation()
    return error.value.code


def test_a_reload_knows_what_was_written(driven):
    driven.write(StateBatch(10, 19, ACKNOWLEDGED, 1), StateBatch(20, 29, 0, 2))
    driven.write(StateBatch(25, 25, ACKNOWLEDGED, 2), start=15, epoch=4)
    assert contents(driven.reload()) == contents(driven.coordinator)
    assert contents(driven.coordinator)[1:3] == (4, 15)
    assert contents(driven.coordinator)[3][0] == StateBatch(15, 19, ACKNOWLEDGED, 1)


def test_what_nobody_has_initialized_has_no_state(driven):
    write = StateWrite(0, 0, 5)
    coordinator = driven.coordinator
    assert refused(lambda: coordinator.read(OTHER, 0, 1)) is ErrorCode.INVALID_REQUEST
    assert refused(lambda: coordinator.write(OTHER, write, 1)) is ErrorCode.INVALID_REQUEST
    assert coordinator.summary(OTHER) is None
    assert not coordinator.delete(OTHER).records


def test_a_read_fences_earlier_leaders_also_after_a_reload(driven):
    _, effects = driven.coordinator.read(KEY, 7, 1)
    driven.do(effects)
    for coordinator in (driven.coordinator, driven.reload()):
        earlier = StateWrite(0, 6, -1)
        fenced = ErrorCode.FENCED_LEADER_EPOCH
        assert refused(lambda c=coordinator: c.read(KEY, 6, 1)) is fenced
        assert refused(lambda c=coordinator, w=earlier: c.write(KEY, w, 1)) is fenced
        assert coordinator.read(KEY, 7, 1)[1] is None
        assert coordinator.read(KEY, -1, 1)[1] is None


def test_a_new_initialization_forgets_batches_and_fences_writes_of_the_old_one(driven):
    driven.write(StateBatch(10, 19, ACKNOWLEDGED, 1), epoch=3)
    driven.do(driven.coordinator.initialize(KEY, 2, 50, 9))
    assert contents(driven.reload()) == (2, 3, 50, [])
    assert refused(lambda: driven.write(state_epoch=1, epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    older = driven.coordinator.initialize
    assert refused(lambda: older(KEY, 1, 0, 9)) is ErrorCode.FENCED_STATE_EPOCH


def test_a_snapshot_follows_so_many_updates_and_holds_all():
    driven = Driven(updates_per_snapshot=2)
    driven.do(driven.coordinator.initialize(KEY, 0, 0, 1))
    for offset in range(6):
        driven.write(StateBatch(offset, offset, ACKNOWLEDGED, 1), now=offset)
    assert driven.kinds() == [0, 1, 1, 0, 1, 1, 0]
    assert parse_snapshot(driven.log[3].value).snapshot_epoch == 1
    assert driven.coordinator.oldest_needed(7) == 6
    assert contents(driven.reload(since=6)) == contents(driven.coordinator)


def test_what_no_snapshot_needs_may_be_pruned(driven):
    driven.do(driven.coordinator.initialize(OTHER, 0, 0, 1))
    assert driven.coordinator.oldest_needed(2) == 0
    driven.do(driven.coordinator.delete(KEY))
    assert driven.coordinator.oldest_needed(3) == 1
    driven.do(driven.coordinator.delete(OTHER))
    assert driven.coordinator.oldest_needed(4) == 4
    assert not driven.reload().states


def test_a_cold_state_is_written_once_more_but_not_again(driven):
    driven.write(StateBatch(10, 19, ACKNOWLEDGED, 1))
    coordinator = driven.coordinator
    assert not list(coordinator.snapshot_cold(100, 100))
    for effects in coordinator.snapshot_cold(100, 101):
        driven.do(effects)
    assert driven.kinds()[-1] == SNAPSHOT
    assert coordinator.oldest_needed(9) == 2
    assert not list(coordinator.snapshot_cold(100, 1000))
    assert contents(driven.reload(since=2)) == contents(coordinator)


def test_a_cold_state_keeps_no_records_of_others_from_being_pruned():
    driven = Driven(updates_per_snapshot=2)
    for key in (KEY, OTHER):
        driven.do(driven.coordinator.initialize(key, 0, 10, 1))
    for round_ms in (200, 400, 600):
        for _ in range(6):
            driven.write(StateBatch(10, 19, ACKNOWLEDGED, 1), now=round_ms, key=OTHER)
        end_offset = len(driven.log)
        for effects in driven.coordinator.snapshot_cold(100, round_ms):
            driven.do(effects)
        assert driven.coordinator.oldest_needed(end_offset) >= end_offset - 6
        assert contents(driven.reload(since=end_offset)) == contents(driven.coordinator)


def test_states_end_with_their_topics(driven):
    for effects in driven.coordinator.forget_topics(lambda topic_id: topic_id == KEY.topic_id):
        driven.do(effects)
    assert not driven.coordinator.states
    assert driven.log[-1].value is None


def test_the_records_are_kafkas(driven):
    driven.write(StateBatch(10, 19, ACKNOWLEDGED, 1), epoch=3)
    snapshot, update = driven.log
    assert snapshot.key == b"\0\0\0\7workers" + KEY.topic_id + b"\0\0\0\3"
    assert update.key == b"\0\1" + snapshot.key[2:]
    assert parse_snapshot(snapshot.value) == ShareSnapshotValue(
        start_offset=10, delivery_complete_count=0, create_timestamp=1, write_timestamp=1
    )
    parsed = parse_update(update.value)
    assert isinstance(parsed, ShareUpdateValue)
    assert (parsed.leader_epoch, parsed.start_offset) == (3, -1)


def test_a_share_partition_is_named_as_in_kafka():
    assert KEY.coordinator_key == "workers:AAECAwQFBgcICQoLDA0ODw:3"
    check_coordinator_key(KEY.coordinator_key)
    check_coordinator_key("with:colons:AAECAwQFBgcICQoLDA0ODw:0")
    for wrong in (
        "",
        "workers",
        "a:b:c",
        ":AAECAwQFBgcICQoLDA0ODw:3",
        "a:AAECAwQFBgcICQoLDA0ODw:-1",
    ):
        assert refused(lambda text=wrong: check_coordinator_key(text)) is ErrorCode.INVALID_REQUEST
