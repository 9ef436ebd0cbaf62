"""Idempotent and transactional producers: sequences, epochs, transactions, snapshots."""

from random import Random

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.producer_snapshot import from_snapshot, snapshot_offsets, to_snapshot
from kwire.log.producer_state import ProducerStates
from kwire.record.batch import RecordBatch, assign_offsets, complete_batches
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.log_state import base_offsets, known_producers

MAX = 2**31 - 1


def test_the_last_five_batches_sent_again_are_answered_not_appended(tools, refused):
    """KIP-98: duplicates get the original offset; a sixth one is out of order."""
    log = tools.open()
    for number in range(6):
        tools.append(log, b"a", b"b", producer=(1, 0, number * 2))
    for number in range(1, 6):
        again = tools.batch(b"a", b"b", producer=(1, 0, number * 2))
        info = log.append(again, leader_epoch=0, now_ms=tools.now_ms)
        assert info.is_duplicate
        assert (info.first_offset, info.last_offset) == (number * 2, number * 2 + 1)
        assert info.log_append_time_ms == tools.now_ms
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        tools.append(log, b"a", b"b", producer=(1, 0, 0))
    assert log.log_end_offset == 12


def test_a_gap_is_out_of_order(tools, refused):
    """A batch must go on where the last one ended, or its records could be lost unnoticed."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0))
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        tools.append(log, b"a", producer=(1, 0, 2))
    assert tools.append(log, b"a", producer=(1, 0, 1)) == 1


def test_sequences_wrap(tools):
    """After 2**31 - 1 comes 0, inside a batch as well."""
    log = tools.open()
    tools.append(log, b"a", b"b", producer=(1, 0, MAX - 2))
    assert tools.append(log, b"a", b"b", b"c", producer=(1, 0, MAX)) == 2
    assert known_producers(log)[1].last_sequence == 1
    assert tools.append(log, b"a", producer=(1, 0, 2)) == 5
    again = tools.batch(b"a", b"b", b"c", producer=(1, 0, MAX))
    assert log.append(again, leader_epoch=0, now_ms=tools.now_ms).first_offset == 2
    log.close(tools.now_ms)
    log = tools.open()
    assert known_producers(log)[1].batches[-1].first_sequence == 2


def test_older_epochs_are_fenced_and_newer_ones_start_at_zero(tools, refused):
    """A producer that was replaced can't write any more."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 3, 0))
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        tools.append(log, b"a", producer=(1, 2, 1))
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        tools.append(log, b"a", producer=(1, 4, 1))
    tools.append(log, b"a", producer=(1, 4, 0))
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        tools.append(log, b"a", b"b", producer=(1, 4, 0))


def test_an_unknown_producer_may_start_anywhere(tools):
    """Its state may have been lost to retention."""
    log = tools.open()
    assert tools.append(log, b"a", producer=(7, 2, 55)) == 0
    assert tools.append(log, b"a", producer=(7, 2, 56)) == 1


def test_silent_producers_are_forgotten_but_not_with_an_open_transaction(tools):
    """producer.id.expiration.ms."""
    log = tools.open(producer_id_expiration_ms=1000)
    tools.append(log, b"a", producer=(1, 0, 0))
    tools.append(log, b"a", producer=(2, 0, 0), transactional=True)
    log.producers.expire(lambda at_ms: tools.now_ms + 999 - at_ms, 1000)
    assert set(known_producers(log)) == {1, 2}
    log.producers.expire(lambda at_ms: tools.now_ms + 1000 - at_ms, 1000)
    assert set(known_producers(log)) == {2}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("with_snapshots", [True, False])
def test_state_survives_a_restart(tools, refused, clean, with_snapshots):
    """From the snapshot, or from the log where there is none."""
    log = tools.open(segment_bytes=400)
    for number in range(10):
        tools.append(log, b"a" * 30, producer=(1, 0, number))
    tools.append(log, b"a", producer=(2, 5, 0))
    if clean:
        log.close(tools.now_ms)
    if not with_snapshots:
        for path in tools.directory.glob("*.snapshot"):
            path.unlink()
    log = tools.open(clean=clean, segment_bytes=400)
    again = tools.batch(b"a", producer=(2, 5, 0))
    assert log.append(again, leader_epoch=0, now_ms=tools.now_ms).is_duplicate
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        tools.append(log, b"a", producer=(2, 4, 0))
    assert tools.append(log, b"a", producer=(1, 0, 10)) == 11


def test_a_broken_snapshot_is_ignored(tools, caplog):
    """The log alone is the truth."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0))
    log.close(tools.now_ms)
    path = tools.directory / f"{1:020d}.snapshot"
    path.write_bytes(path.read_bytes()[:-1])
    log = tools.open()
    assert known_producers(log)[1].last_sequence == 0
    assert "snapshot" in caplog.text
    log.close(tools.now_ms)
    assert from_snapshot(path.read_bytes()).producers[1].last_sequence == 0


def test_snapshots_between_segments_are_removed(tools):
    """Each clean stop leaves one; only the newest and those of segments are kept."""
    log = tools.open()
    for number in range(5):
        tools.append(log, b"a", producer=(1, 0, number))
        log.close(tools.now_ms)
        log = tools.open()
    assert snapshot_offsets(tools.directory, tools.disk) == [5]


def test_an_open_transaction_bounds_what_is_stable(tools):
    """The oldest one that has no marker yet, also after a restart and with several open."""
    log = tools.open()
    tools.append(log, b"plain")
    assert log.first_unstable_offset is None
    tools.append(log, b"t1", producer=(1, 0, 0), transactional=True)
    tools.append(log, b"t2", producer=(2, 0, 0), transactional=True)
    assert log.first_unstable_offset == 1
    log.close(tools.now_ms)
    log = tools.open()
    assert log.first_unstable_offset == 1
    tools.append_marker(log, tools.marker(1, 0, commit=True))
    assert log.first_unstable_offset == 2
    assert known_producers(log)[1].coordinator_epoch == 3
    tools.append_marker(log, tools.marker(2, 0, commit=False))
    assert log.first_unstable_offset is None


def test_the_oldest_open_transaction_is_found_after_a_restart(tools):
    """Producers are in a snapshot as they came, not in the order of their transactions."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0), transactional=True)
    tools.append_marker(log, tools.marker(1, 0, commit=True))
    tools.append(log, b"b", producer=(2, 0, 0), transactional=True)
    tools.append(log, b"a", producer=(1, 0, 1), transactional=True)
    log.close(tools.now_ms)
    log = tools.open()
    assert log.first_unstable_offset == 2
    tools.append_marker(log, tools.marker(2, 0, commit=True))
    assert log.first_unstable_offset == 3


def test_an_open_transaction_whose_records_are_deleted(tools):
    """Nothing before the log start offset holds a consumer up."""
    log = tools.open()
    tools.append(log, b"a", b"b", b"c", producer=(1, 0, 0), transactional=True)
    log.advance_log_start_offset(2)
    assert log.first_unstable_offset == 2
    log.advance_log_start_offset(3)
    assert log.first_unstable_offset == 3


def test_aborted_transactions_are_indexed(tools):
    """With overlapping ones: complete for a range, by first offset, also rebuilt after a crash."""
    log = tools.open(segment_bytes=500)
    tools.append(log, b"a", producer=(1, 0, 0), transactional=True)
    tools.append(log, b"b", producer=(2, 0, 0), transactional=True)
    tools.append_marker(log, tools.marker(2, 0, commit=False))
    for _ in range(10):
        tools.append(log, b"x" * 50)
    tools.append_marker(log, tools.marker(1, 0, commit=False))
    tools.append(log, b"c", producer=(3, 0, 0), transactional=True)
    tools.append_marker(log, tools.marker(3, 0, commit=True))
    assert len(base_offsets(log)) > 2
    wanted = [(1, 0, 13), (2, 1, 2)]
    for _ in range(2):
        found = log.aborted_transactions(0, log.log_end_offset)
        assert [(e.producer_id, e.first_offset, e.last_offset) for e in found] == wanted
        assert [e.producer_id for e in log.aborted_transactions(3, 5)] == [1]
        assert [e.producer_id for e in log.aborted_transactions(0, 1)] == [1]
        assert log.aborted_transactions(14, log.log_end_offset) == []
        for path in [*tools.directory.glob("*.txnindex"), *tools.directory.glob("*.snapshot")]:
            path.unlink()
        log = tools.open(clean=False, segment_bytes=500)


def test_a_plain_batch_inside_a_transaction_is_refused(tools, refused):
    """ProducerAppendInfo: InvalidTxnStateException."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0), transactional=True)
    with refused(ErrorCode.INVALID_TXN_STATE):
        tools.append(log, b"a", producer=(1, 0, 1))


def test_after_a_marker_of_a_new_epoch_sequences_start_at_zero(tools, refused):
    """KIP-890: the marker itself brings the epoch that the producer goes on with."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0), transactional=True)
    tools.append_marker(log, tools.marker(1, 1, commit=True))
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        tools.append(log, b"a", producer=(1, 1, 1), transactional=True)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        tools.append(log, b"a", producer=(1, 0, 1), transactional=True)
    assert tools.append(log, b"a", producer=(1, 1, 0), transactional=True) == 2


def test_a_control_batch_that_compaction_emptied_ends_nothing():
    """ProducerStateManager of Kafka: what is left of a marker says nothing about its producer."""
    marker = end_transaction_marker(
        ControlType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=5
    )
    empty = BatchBuilder(3).build(
        producer=ProducerState(1, 0), transactional=True, control=True, last_offset_delta=0
    )
    states = ProducerStates()
    states.update(RecordBatch(marker))
    assert states.update(RecordBatch(empty)) is None
    assert states.producers[1].timestamp == 5


def test_a_read_is_told_of_the_transactions_that_it_meets(tools):
    """By their first offsets; those behind what it gives are left out, whatever the segments."""
    log = tools.open(index_interval_bytes=0, segment_bytes=1000)
    for n in range(40):
        tools.append(log, b"v", producer=(n % 3, 0, n // 3), transactional=True)
        if n % 5 == 4:
            tools.append_marker(log, tools.marker(n % 3, 0, commit=False))
    end = log.log_end_offset
    everything = log.aborted_transactions(0, end)
    assert len(everything) == 8
    assert len(base_offsets(log)) > 2
    for offset in range(end):
        found = log.read(offset, 300, end_offset=end, min_one_batch=True)
        data = tools.fetch(log, offset, 300)
        last = max(b.last_offset for b in complete_batches(data))
        told = log.aborted_transactions(offset, end, found)
        met = [t for t in everything if t.first_offset <= last and t.last_offset >= offset]
        assert [t for t in told if t in met] == met
        assert all(t.first_offset <= last + 3 for t in told)
        assert told == sorted(told, key=lambda t: t.first_offset)


def _states(epoch=3, *, is_open=True, coordinator_epoch=-1):
    """The state of a partition in which producer 1 has written."""
    states = ProducerStates()
    builder = BatchBuilder()
    builder.add(0, None, b"v")
    producer = ProducerState(1, epoch, 0)
    states.update(RecordBatch(builder.build(producer=producer, transactional=True)))
    if not is_open:
        marker = end_transaction_marker(
            ControlType.COMMIT,
            producer_id=1,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=0,
        )
        states.update(RecordBatch(marker))
    return states


@pytest.mark.parametrize(
    ("epoch", "version", "is_open", "is_refused"),
    [
        (2, 0, True, True),
        (3, 0, True, False),
        (4, 0, True, False),
        (2, 2, True, True),
        (3, 2, True, True),
        (4, 2, True, False),
        (3, 2, False, False),
        (3, 0, False, False),
        (2, 2, False, True),
    ],
)
def test_which_markers_may_be_written(refused, epoch, version, is_open, is_refused):
    """An older epoch never; the same one only in the first protocol, or as a repetition."""
    states = _states(is_open=is_open)
    if is_refused:
        with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
            states.check_marker(1, epoch, 0, version)
    else:
        states.check_marker(1, epoch, 0, version)
    states.check_marker(99, epoch, 0, version)


def test_a_coordinator_that_was_replaced_writes_no_markers(refused):
    """TRANSACTION_COORDINATOR_FENCED."""
    states = _states(is_open=False, coordinator_epoch=5)
    states.check_marker(1, 4, 5, 2)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        states.check_marker(1, 4, 4, 2)


def test_batches_wait_for_the_first_that_was_refused(refused):
    """Of several under way the first comes again, then the others; a new epoch counts anew."""
    states = ProducerStates()
    states.expect_first(1, 0, 10)
    states.expect_first(1, 0, 20)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        states.check_first(1, 0, 20, bumps=False)
    states.check_first(1, 0, 10, bumps=False)
    states.expect_first(1, 1, 0)
    states.check_first(1, 1, 0, bumps=True)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        states.check_first(2, 0, 7, bumps=True)
    states.check_first(2, 0, 7, bumps=False)


def test_what_waits_is_bounded(refused):
    """The oldest producers that never came again are forgotten."""
    states = ProducerStates()
    for producer_id in range(3000):
        states.expect_first(producer_id, 0, 5)
    for producer_id in range(2000):
        states.check_first(producer_id, 0, 7, bumps=False)
    for producer_id in range(2000, 3000):
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            states.check_first(producer_id, 0, 7, bumps=False)


@pytest.mark.parametrize("seed", range(4))
def test_what_goes_on_is_what_the_slow_way_lets_pass(tools, seed):
    """Nothing else goes on, and all of it that is common does; the state is the same afterwards."""
    random = Random(seed)
    slow, fast = ProducerStates(), ProducerStates()
    taken = 0
    for offset in range(600):
        producer_id, epoch = random.randrange(3), random.choice([0] * 9 + [1])
        entry = slow.producers.get(producer_id)
        begin = random.choice([0, MAX, MAX - 1])
        following = begin if entry is None else (entry.last_sequence + 1) % (MAX + 1)
        sequence = random.choice([following] * 8 + [0, 3, MAX - 1])
        transactional = random.random() < 0.05
        values = [b"v"] * random.choice([1, 2, 5])
        data = tools.batch(
            *values, producer=(producer_id, epoch, sequence), transactional=transactional
        )
        batch = RecordBatch(data)
        going_on = None if transactional else fast.goes_on(batch)
        try:
            passes = slow.check(batch) is None
        except KafkaError:
            passes = False
        is_common = entry is not None and entry.producer_epoch == epoch and not transactional
        assert (going_on is not None) == (passes and is_common)
        batch.base_offset = offset * 10
        if going_on is not None:
            going_on.add_batch(batch)
            taken += 1
        elif passes:
            fast.update(batch)
        if passes:
            slow.update(batch)
            if transactional and random.random() < 0.8:
                marker = RecordBatch(tools.marker(producer_id, epoch, commit=True))
                slow.update(marker)
                fast.update(marker)
        assert to_snapshot(fast) == to_snapshot(slow)
        kept = [list(entry.batches) for entry in slow.producers.values()]
        assert [list(entry.batches) for entry in fast.producers.values()] == kept
    assert taken > 20


def test_a_repetition_does_not_go_on_though_its_sequence_is_next(tools):
    """A batch that says it has all sequences ends where it begins."""
    data = tools.batch(b"v", producer=(1, 0, 0))
    data[23:27] = MAX.to_bytes(4, "big")
    batch = RecordBatch(data)
    states = ProducerStates()
    states.update(batch)
    assert states.check(batch) is not None
    assert states.goes_on(batch) is None


def test_transactions_whose_markers_are_replicated_hold_nothing_back(tools):
    """Others that ended later do, until their markers are replicated as well."""
    log = tools.open()
    log.producers.keep_ended()
    for producer_id in (1, 2):
        tools.append(log, b"a", producer=(producer_id, 0, 0), transactional=True)
    markers = []
    for producer_id in (1, 2):
        markers.append(log.log_end_offset)
        tools.append_marker(log, tools.marker(producer_id, 0, commit=True))
    assert log.producers.stable_offset(4) == 0
    log.producers.forget_ended(markers[0] + 1)
    assert log.producers.stable_offset(4) == 1
    log.producers.forget_ended(markers[1] + 1)
    assert log.producers.stable_offset(4) == 4


def test_the_oldest_open_transaction_is_first_even_in_a_damaged_file(tools):
    """Nothing checks the offsets of a file that was closed cleanly, and no checksum covers them."""
    states = ProducerStates()
    for producer_id, offset in ((1, 7), (2, 3), (3, 9)):
        batch = RecordBatch(tools.batch(b"a", producer=(producer_id, 0, 0), transactional=True))
        assign_offsets(batch, offset, 0)
        states.update(batch)
    assert states.first_unstable_offset == 3
    assert list(states.open_transactions) == [2, 1, 3]
