"""What time, restarts, failed writes and used-up epochs do to transactions."""

import pytest

from kwire.coordinator.transaction.coordinator import TransactionCoordinator, TransactionSettings
from kwire.coordinator.transaction.records import (
    parse_key,
    parse_transaction,
    tombstone,
    transaction_record,
)
from kwire.coordinator.transaction.state import Transaction, TransactionState
from kwire.protocol.wire import MalformedRequest
from kwire.record.records import Record


def test_a_transaction_that_is_open_for_too_long_is_aborted(script):
    """The clock runs from the first partition, not from the last.

    A producer of the first protocol is fenced; one of the newer may abort, and goes on.
    """
    script.run("""
        init a timeout=10
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        after 60
        timeouts
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        after 6
        add a p-1
            record Ongoing producer 1 epoch 0 [p-0 p-1]
            a add: ok
        after 4
        timeouts
        after 1
        timeouts
            record PrepareAbort producer 1 epoch 1 [p-0 p-1]
        timeouts
        markers
            marker p-0 abort epoch 1
            marker p-1 abort epoch 1
            record CompleteAbort producer 1 epoch 1
        commit a
            a commit: INVALID_TXN_STATE
        commit a v=1
            a commit: PRODUCER_FENCED
        abort a
            a: done already
        add a p-0
            record Ongoing producer 1 epoch 1 [p-0]
            a add: ok
    """)


def test_an_end_that_was_decided_survives_a_restart(script):
    """What is unfinished goes on; markers may be written twice."""
    script.run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0 p-1
            record Ongoing producer 1 epoch 0 [p-0 p-1]
            a add: ok
        restart
        show
            Ongoing producer 1 epoch 0 [p-0 p-1]
        commit a
            record PrepareCommit producer 1 epoch 1 [p-0 p-1]
            a: ok
        markers p-0
            marker p-0 commit epoch 1
        restart
        show
            PrepareCommit producer 1 epoch 1 [p-0 p-1] unfinished
        markers
            marker p-0 commit epoch 1
            marker p-1 commit epoch 1
            record CompleteCommit producer 1 epoch 1
        restart
        show
            CompleteCommit producer 1 epoch 1
        commit a epoch=0
            a: done already
    """)


def test_what_cannot_be_written_is_not_so(script):
    """The state is what it was, and the same request succeeds later."""
    script.run("""
        writes fail
        init a
            a init: NOT_COORDINATOR
        show
            unknown
        writes work
        init a
            record Empty producer 2 epoch 0
            a init: producer 2 epoch 0
        writes fail
        add a p-0
            a add: NOT_COORDINATOR
        writes work
        show
            Empty producer 2 epoch 0
        add a p-0
            record Ongoing producer 2 epoch 0 [p-0]
            a add: ok
        writes fail
        commit a
            a commit: NOT_COORDINATOR
        init b
            b init: NOT_COORDINATOR
        writes work
        show
            Ongoing producer 2 epoch 0 [p-0]
        commit a
            record PrepareCommit producer 2 epoch 1 [p-0]
            a: ok
        writes fail
        markers
            marker p-0 commit epoch 1
            markers: NOT_COORDINATOR
        show
            PrepareCommit producer 2 epoch 1 unfinished
        writes work
        markers
            record CompleteCommit producer 2 epoch 1
    """)


def test_ids_that_nobody_uses_expire(new_script):
    """Only at rest, after transactional.id.expiration.ms."""
    new_script(id_expiration_ms=100_000).run("""
        init a
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
        after 200
        expire
        abort a
            record PrepareAbort producer 1 epoch 1 [p-0]
            a: ok
        after 200
        expire
        markers
            marker p-0 abort epoch 1
            record CompleteAbort producer 1 epoch 1
        after 99
        expire
        after 1
        expire
            record gone
        show
            unknown
        restart
        show
            unknown
        commit a
            a commit: INVALID_PRODUCER_ID_MAPPING
    """)


def test_an_exhausted_epoch_leads_to_another_producer_id(script):
    """By InitProducerId; the last epoch is kept for fencing."""
    script.log.append(_record(_state(TransactionState.COMPLETE_COMMIT, epoch=32765)))
    script.run("""
        restart
        init a
            record Empty producer 7 epoch 32766
            a init: producer 7 epoch 32766
        add a p-0 v=1
            record Ongoing producer 7 epoch 32766 [p-0]
            a add: ok
        level 1
        init b
            record PrepareAbort producer 7 epoch 32767 [p-0]
            b init: CONCURRENT_TRANSACTIONS
        markers
            marker p-0 abort epoch 32767
            record CompleteAbort producer 7 epoch 32767
        init b
            record Empty producer 1 epoch 0
            b init: producer 1 epoch 0
        init a id=7 epoch=32766
            a init: PRODUCER_FENCED
    """)


def test_a_producer_learns_its_new_id_though_the_answer_was_lost(script):
    """It asks with the id and epoch it had, and the one after the new one is its own."""
    script.log.append(_record(_state(TransactionState.COMPLETE_COMMIT, epoch=32766)))
    script.run("""
        restart
        init a id=7 epoch=32766
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
        init a id=7 epoch=32766
            record Empty producer 1 epoch 0
            a init: producer 1 epoch 0
    """)


def test_the_end_of_a_transaction_with_the_last_epoch(script):
    """Markers have the epoch that no client gets; the producer goes on with another id."""
    script.log.append(_record(_state(TransactionState.COMPLETE_COMMIT, epoch=32766)))
    script.run("""
        restart
        add a p-0 id=7 epoch=32766
            record Ongoing producer 7 epoch 32766 [p-0]
            a add: ok
        commit a id=7 epoch=32766
            record PrepareCommit producer 7 epoch 32767 next 1 [p-0]
            a: ok
        add a p-0    # with the new id, too early
            a add: CONCURRENT_TRANSACTIONS
        restart
        markers
            marker p-0 commit epoch 32767
            record CompleteCommit producer 1 epoch 0
        commit a id=7 epoch=32766
            a: done already
        abort a id=7 epoch=32766
            a abort: INVALID_TXN_STATE
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
    """)


@pytest.mark.parametrize("how", ["init b", "timeouts"])
def test_an_abort_with_the_last_epoch_leads_to_another_producer_id(script, how):
    """Nobody is ever told the epoch that is kept for fencing: with it nothing could be ended."""
    open_one = _state(TransactionState.ONGOING, epoch=32766, partitions={("p", 0)})
    script.log.append(_record(open_one._replace(start_ms=script.now_ms)))
    told = "\n            b init: CONCURRENT_TRANSACTIONS" if how == "init b" else ""
    script.run(f"""
        restart
        after 100
        {how}
            record PrepareAbort producer 7 epoch 32767 next 1 [p-0]{told}
        markers
            marker p-0 abort epoch 32767
            record CompleteAbort producer 1 epoch 0
        abort a id=7 epoch=32766   # its own, as far as it knows
            a: done already
        add a p-0
            record Ongoing producer 1 epoch 0 [p-0]
            a add: ok
    """)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_records_are_read_as_they_are_written(level):
    """Version 0 of the value knows neither the other producer ids nor the protocol."""
    written = _state(
        TransactionState.PREPARE_COMMIT, epoch=3, partitions={("p", 0), ("p", 2), ("q", 1)}
    )._replace(previous_producer_id=7, next_producer_id=9, client_version=2)
    key, value, _ = transaction_record(written, level)
    assert value is not None
    assert value[:2] == (b"\0\0" if level == 0 else b"\0\1")
    read = parse_transaction(parse_key(key), value)
    if level == 0:
        written = written._replace(previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert read == written


KAFKA = {
    "Empty 1 0": (
        "0001000000000000000100000000ea600000000001a1fd23d0dfffffffffffffffff0100080000000000000001"
    ),
    "Ongoing 1 0": (
        "0001000000000000000100000000ea600102036a74020000000000000001a1fd23d120000001a1fd"
        "23d120020008000000000000000102020002"
    ),
    "PrepareCommit 1 1": (
        "0001000000000000000100010000ea600202036a74020000000000000001a1fd23d134000001a1fd"
        "23d120020008000000000000000102020002"
    ),
    "CompleteCommit 1 1": (
        "0001000000000000000100010000ea600401000001a1fd23d135000001a1fd23d120020008000000"
        "000000000102020002"
    ),
    "PrepareAbort 0 1": (
        "0001000000000000000000010000ea6003020e68742d313739353234383132380200000000000000"
        "01a1fd20a822000001a1fd2088c4020008000000000000000002020002"
    ),
}
"""What Apache Kafka 4.3.1 wrote: state, producer id and epoch, the value."""


@pytest.mark.parametrize("name", KAFKA)
def test_records_are_byte_for_byte_those_of_kafka(name):
    """They are read, and written again alike."""
    value = bytes.fromhex(KAFKA[name])
    known = parse_transaction("jx", value)
    assert f"{known.state.title} {known.producer_id} {known.producer_epoch}" == name
    assert transaction_record(known, 2)[:2] == (bytes.fromhex("000000026a78"), value)
    with pytest.raises(MalformedRequest):
        parse_transaction("jx", value[:-1])


def test_other_records_are_passed_over():
    """Keys of a later kind, records without a key, and unknown states."""
    coordinator = TransactionCoordinator(TransactionSettings())
    coordinator.replay(Record(0, 0, None, b"x"), -1, 0, loading=True)
    coordinator.replay(Record(1, 0, b"\0\1\0\1t", b"x"), -1, 0, loading=True)
    assert not coordinator.transactions
    key, value, _ = transaction_record(_state(TransactionState.EMPTY), 2)
    assert value is not None
    damaged = value[:16] + b"\x63" + value[17:]
    with pytest.raises(MalformedRequest):
        coordinator.replay(Record(2, 0, key, damaged), -1, 0, loading=True)
    with pytest.raises(MalformedRequest):
        coordinator.replay(Record(3, 0, b"\0", None), -1, 0, loading=True)


def test_what_was_written_is_replayed_and_never_taken_in():
    """Its records carry no content of their own; one that did must not be lost without a word."""
    coordinator = TransactionCoordinator(TransactionSettings())
    assert transaction_record(_state(TransactionState.EMPTY), 2).content is None
    with pytest.raises(AssertionError, match="has content"):
        coordinator.take_in(object(), 0, -1, 0)


def test_many_ids_expire_a_thousand_at_a_time():
    """A batch of tombstones has a limit."""
    coordinator = TransactionCoordinator(TransactionSettings(id_expiration_ms=1))
    for number in range(1500):
        known = _state(TransactionState.EMPTY)._replace(transactional_id=f"t{number}")
        coordinator.replay(_record(known), -1, 0, loading=True)
    assert len(coordinator.expire_ids(lambda at_ms: 1_000_000 - at_ms).records) == 1000
    assert coordinator.expire_ids(lambda at_ms: 1_000_000 - at_ms).records[0] == tombstone("t0")


def test_a_transaction_that_began_in_the_future_does_not_stay_open_until_then():
    """The date was set back while nobody ran: the timeout counts from when it was loaded."""
    coordinator = TransactionCoordinator(TransactionSettings())
    known = _state(TransactionState.ONGOING)._replace(start_ms=9_000_000, timeout_ms=1000)
    coordinator.replay(_record(known), -1, 0, loading=True)
    coordinator.begin(5_000_000)
    assert coordinator.timed_out(lambda at_ms: 5_001_000 - at_ms) == []
    assert coordinator.timed_out(lambda at_ms: 5_001_001 - at_ms) == [known.transactional_id]


def test_what_has_ended_meanwhile_is_not_aborted():
    """Between the look at the clock and the abort it may end, begin anew, or be forgotten."""
    coordinator = TransactionCoordinator(TransactionSettings())
    known = _state(TransactionState.ONGOING)
    coordinator.replay(_record(known), -1, 0, loading=True)
    for transactional_id, age_ms in ((known.transactional_id, known.timeout_ms), ("others", 10**9)):
        effects = coordinator.abort_timed_out(transactional_id, None, 7, lambda _, age=age_ms: age)
        assert effects.records == []
    effects = coordinator.abort_timed_out("t", None, 7, lambda _: known.timeout_ms + 1)
    assert len(effects.records) == 1


def _state(
    state: TransactionState, epoch: int = 0, partitions: set[tuple[str, int]] | None = None
) -> Transaction:
    return Transaction(
        "t", 7, epoch, 60_000, state, frozenset(partitions or ()), start_ms=5, last_update_ms=6
    )


def _record(known: Transaction) -> Record:
    key, value, _ = transaction_record(known, 2)
    return Record(0, 0, key, value)
