"""The driver of coordinators: writing before answering, going back, splitting, loading."""

import logging
from contextlib import suppress

import pytest
import trio

from kwire.coordinator.effects import Effects
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.record.batch import batches
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import BatchBuilder, ProducerState, Record, records
from kwire.record.streaming_decompressor import Limits
from kwire.runtime import SPLIT_BYTES, CoordinatorRuntime, Reply


class MemoryLog:
    """A partition in memory, whose writes may be made to fail."""

    def __init__(self) -> None:
        self.batches: list[bytearray] = []
        self.count = 0
        self.error: ErrorCode | None = None

    def append(self, batch: bytearray, now_ms: int) -> int:
        """Write a batch; its first offset."""
        if self.error is not None:
            raise KafkaError(self.error)
        self.batches.append(batch)
        first, self.count = self.count, self.count + len(self.records(batch))
        return first

    def records(self, batch: bytearray) -> list[Record]:
        """The records of a batch."""
        return [record for header in batches(batch) for record in records(header)]


@pytest.fixture
def memory_log():
    """An empty partition."""
    return MemoryLog()


@pytest.fixture
def scheduled():
    """The deadlines that the runtime was told of."""
    return []


@pytest.fixture
def runtime(memory_log, scheduled):
    """A group coordinator over that partition, at 1000 ms past the epoch."""
    coordinator = GroupCoordinator(GroupSettings(), lambda: "id")
    return CoordinatorRuntime(coordinator, memory_log.append, lambda: 1000, scheduled.append)


def _commit(offset: int = 5, metadata: str = "", partition: int = 0) -> Effects:
    effects = Effects()
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=1)
    effects.records.append(offset_commit("g", "t", partition, value))
    return effects


async def test_answers_come_after_the_write(runtime, memory_log):
    """The record is in the log and replayed, with its offset, before anybody is answered."""
    effects = _commit()
    effects.reply(reply := Reply(), SyncGroupResponse(assignment=b"x"))
    runtime.carry_out(effects)
    assert reply.response.assignment == b"x"
    assert len(memory_log.batches) == 1
    runtime.carry_out(_commit(6))
    committed = runtime.coordinator.offsets.of("g").get("t", 0)
    assert (committed.offset, committed.record_offset) == (6, 1)


async def test_what_happened_is_told_afterwards(memory_log, caplog):
    """Nobody waits for a line of the log; it is told all the same where the write fails."""
    caplog.set_level(logging.INFO)
    left = []
    coordinator = GroupCoordinator(GroupSettings(), lambda: "id")
    runtime = CoordinatorRuntime(
        coordinator, memory_log.append, lambda: 1000, lambda _: None, do_afterwards=left.append
    )
    for error in (None, ErrorCode.NOT_ENOUGH_REPLICAS):
        memory_log.error = error
        effects = _commit()
        effects.notes.append(f"with {error}")
        effects.reply(reply := Reply(), SyncGroupResponse())
        with suppress(KafkaError):
            runtime.carry_out(effects)
        assert reply.is_given
        assert not caplog.messages
        left.pop()()
        assert caplog.messages == [f"with {error}"]
        caplog.clear()
    assert not left


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_failed_write_is_told_to_everybody(runtime, memory_log, error, told):
    """Nothing changes, and the error is one that sends clients to look again."""
    effects = _commit()
    went_back = []
    effects.undo.append(lambda turn: went_back.append(turn.now_ms))
    effects.reply(reply := Reply(), SyncGroupResponse(assignment=b"x"))
    memory_log.error = error
    with pytest.raises(KafkaError) as raised:
        runtime.carry_out(effects)
    assert raised.value.code is told
    assert reply.response.error_code == told
    assert went_back == [1000]
    assert not runtime.coordinator.offsets.of("g")


async def test_whoever_waits_is_woken(runtime):
    """Who waits for a reply that isn't there yet is told."""
    reply = Reply()
    reply.told = trio.Event()
    effects = Effects()
    effects.reply(reply, SyncGroupResponse())
    runtime.carry_out(effects)
    assert reply.told.is_set()


async def test_what_belongs_together_is_one_batch(runtime, memory_log):
    """A commit is all or nothing; a clean-up of any size is cut into batches that fit."""
    together, apart = Effects(), Effects(is_atomic=False)
    for effects in (together, apart):
        for index in range(40):
            effects.records += _commit(metadata="x" * (SPLIT_BYTES // 17), partition=index).records
    runtime.carry_out(together)
    assert len(memory_log.batches) == 1
    runtime.carry_out(apart)
    assert len(memory_log.batches) == 4
    assert memory_log.count == 80


async def test_a_loaded_coordinator_knows_what_was_written(runtime, memory_log):
    """Commits and aborts of transactions are minded, damaged records left out."""
    runtime.carry_out(_commit(5))
    for producer_id, kind in ((7, ControlType.COMMIT), (8, ControlType.ABORT)):
        builder = BatchBuilder()
        [record] = _commit(producer_id, partition=producer_id).records
        builder.add(0, record.key, record.value)
        producer = ProducerState(producer_id, 0)
        memory_log.append(builder.build(producer=producer, transactional=True), 0)
        marker = end_transaction_marker(
            kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
        memory_log.append(marker, 0)
    emptied = BatchBuilder().build(producer=ProducerState(7, 0), control=True, last_offset_delta=0)
    memory_log.append(emptied, 0)
    again = CoordinatorRuntime(
        GroupCoordinator(GroupSettings(), lambda: ""), memory_log.append, lambda: 0, id
    )
    await again.load(header for batch in memory_log.batches for header in batches(batch))
    offsets = {p: o.offset for _, p, o in again.coordinator.offsets.of("g").items()}
    assert offsets == {0: 5, 7: 7}


async def test_offsets_of_a_transaction_wait_for_its_marker(runtime, memory_log):
    """They are written under the producer's id; its marker makes them hold, or forgets them."""
    offsets = runtime.coordinator.offsets
    for producer_id, kind in ((7, ControlType.COMMIT), (8, ControlType.ABORT)):
        effects = Effects(producer=ProducerState(producer_id, 3, 0))
        effects.records += _commit(producer_id, partition=producer_id).records
        runtime.carry_out(effects)
        [batch] = batches(memory_log.batches[-1])
        assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (
            producer_id,
            3,
            True,
        )
        assert offsets.is_pending("g", "t", producer_id)
        assert offsets.of("g").get("t", producer_id) is None
        marker = end_transaction_marker(
            kind, producer_id=producer_id, producer_epoch=3, coordinator_epoch=0, timestamp=0
        )
        runtime.end_transaction(marker, producer_id, committed=kind is ControlType.COMMIT)
        assert not offsets.is_pending("g", "t", producer_id)
    assert {p: o.offset for _, p, o in offsets.of("g").items()} == {7: 7}


async def test_a_damaged_record_is_left_out_loudly(runtime, caplog):
    """The groups around it are worth having."""
    builder = BatchBuilder()
    builder.add(0, b"\x00\x01\x00\xff", b"")
    [record] = _commit(9).records
    builder.add(0, record.key, record.value)
    with caplog.at_level(logging.ERROR):
        await runtime.load(batches(builder.build()))
    assert runtime.coordinator.offsets.of("g").get("t", 0).offset == 9
    assert "offset 0" in caplog.text


async def test_loading_gives_way(runtime, memory_log, autojump_clock):
    """A long partition doesn't hold up the others."""
    for _ in range(10):
        memory_log.append(bytearray(memory_log.batches[0]) if memory_log.batches else _batch(), 0)
    turns = []

    def slow():
        for batch in memory_log.batches:
            autojump_clock.jump(1)
            yield from batches(batch)

    async def count_turns():
        while True:
            turns.append(trio.current_time())
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await runtime.load(slow())
        nursery.cancel_scope.cancel()
    assert len(turns) >= 3


def _batch() -> bytearray:
    builder = BatchBuilder()
    [record] = _commit().records
    builder.add(0, record.key, record.value)
    return builder.build()


async def test_deadlines_are_told(runtime, scheduled):
    """Whoever keeps the time hears of the next deadline."""
    from kwire.coordinator.joining import Client
    from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    client = Client("c", "/127.0.0.1", 9)
    runtime.carry_out(runtime.coordinator.classic.join(request, client, Reply(), 1000))
    assert scheduled == [11_000]
    runtime.tick(10_999)
    assert runtime.coordinator.groups["g"].pending_joins
    runtime.tick(11_000)
    assert not runtime.coordinator.groups["g"].pending_joins


@pytest.mark.parametrize("limits", [Limits(max_bytes=70_000), Limits(max_records=500)])
async def test_a_bomb_in_the_partition_is_left_out(runtime, monkeypatch, caplog, limits):
    """What no coordinator can have written keeps none from being loaded."""
    monkeypatch.setattr("kwire.runtime.LOADED", limits)
    builder = BatchBuilder()
    for _ in range(1000):
        builder.add(0, b"\0\x63", bytes(100))
    loaded = []
    for effects in (_commit(5), _commit(6)):
        good = BatchBuilder()
        (record,) = effects.records
        good.add(0, record.key, record.value)
        loaded.append(next(batches(good.build())))
    bomb = next(batches(builder.build(compression=4)))
    await runtime.load([loaded[0], bomb, loaded[1]])
    assert runtime.coordinator.offsets.of("g").get("t", 0).offset == 6
    assert "skipped the rest of the batch at offset 0" in caplog.text
