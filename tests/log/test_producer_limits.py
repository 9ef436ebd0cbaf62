"""How many producers are remembered, which are forgotten, and what that means to them."""

import tracemalloc

import pytest

from kwire.log.producer_limits import LoadedProducers, keep_within, level_of
from kwire.log.producer_state import ProducerStates
from kwire.record.batch import RecordBatch
from kwire.record.records import BatchBuilder, ProducerState
from tests.support.log_state import known_producers


def _wrote(states, producer_id, offset, *, sequence=0, transactional=False):
    """A batch of a producer is in the log."""
    builder = BatchBuilder()
    builder.add(0, None, b"v")
    data = builder.build(
        producer=ProducerState(producer_id, 0, sequence), transactional=transactional
    )
    batch = RecordBatch(data)
    batch.base_offset = offset
    states.update(batch)


def test_of_many_producers_those_are_forgotten_that_wrote_longest_ago():
    """A client with a new id in each batch can't fill the memory; who writes is remembered."""
    states = ProducerStates(100)
    _wrote(states, 1, 0, transactional=True)
    _wrote(states, 2, 1)
    for offset in range(2, 5002, 2):
        _wrote(states, 1000 + offset, offset)
        _wrote(states, 2, offset + 1, sequence=offset)
        assert len(states.producers) <= 100
    assert states.producers[1].current_txn_first_offset == 0
    assert states.producers[2].written_offset == 5001
    latest = {1000 + offset for offset in range(5000 - 2 * 80, 5002, 2)}
    assert latest - {6002} <= states.producers.keys()


def test_open_transactions_are_never_forgotten_and_never_looked_through_in_vain():
    """Beyond the limit they are kept; the next look comes after many more."""
    looks = []

    class Watched(ProducerStates):
        def keep_latest(self, most):
            looks.append(most)
            super().keep_latest(most)

    states = Watched(100)
    for offset in range(200):
        _wrote(states, offset, offset, transactional=True)
    assert len(states.producers) == len(states.open_transactions) == 200
    looks.clear()
    for offset in range(200, 240):
        _wrote(states, offset, offset, transactional=True)
    assert len(looks) == 4


def test_who_was_forgotten_may_go_on_anywhere_as_after_the_expiration(tools):
    """Kafka takes any sequence of a producer that it doesn't know (ProducerAppendInfo)."""
    log = tools.open(producer_ids_max=10)
    tools.append(log, b"a", producer=(1, 0, 0))
    for producer_id in range(100, 120):
        tools.append(log, b"a", producer=(producer_id, 0, 0))
    assert 1 not in known_producers(log)
    assert tools.append(log, b"a", producer=(1, 0, 7)) == 21


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_takes_in_the_latest_producers_only(tools, clean):
    """A directory may know more producers than are kept: in a snapshot, or in its batches."""
    log = tools.open()
    tools.append(log, b"a", producer=(1, 0, 0), transactional=True)
    for producer_id in range(100, 200):
        tools.append(log, b"a", producer=(producer_id, 0, 0))
    if clean:
        log.close(tools.now_ms)
    log = tools.open(clean=clean, producer_ids_max=10)
    known = known_producers(log).keys()
    assert {1, *range(195, 200)} <= known
    assert len(known) <= 11


def test_the_entry_of_one_batch_is_small():
    """Half a million producers have to fit into the memory of a small machine."""
    tracemalloc.start()
    try:
        states = ProducerStates()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1000):
            _wrote(states, 10**6 + number, 10**6 + number)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(states.producers) == 1000
    assert taken / 1000 <= 300


def test_a_broker_forgets_where_most_are_known(tools, tmp_path):
    """The logs with few producers keep theirs."""
    logs = [tools.open(), type(tools)(tmp_path / "other").open()]
    for log, count in zip(logs, (5, 100), strict=True):
        for number in range(count):
            _wrote(log.producers, number, number)
    assert len(list(keep_within(logs, 105))) == 0
    assert len(list(keep_within(logs, 50))) == 1
    assert [len(known_producers(log)) for log in logs] == [5, 40]


def test_logs_that_are_loaded_keep_within_the_brokers_limit(tools):
    """Each of many logs may have as many producers in its files as the broker may know."""
    loaded = LoadedProducers(20)
    log = tools.open()
    for number in range(15):
        _wrote(log.producers, number, number)
    loaded.add(log)
    assert len(known_producers(log)) == 15
    loaded.add(log)
    assert len(known_producers(log)) == 9


def test_levels():
    """No count is cut more than necessary."""
    assert level_of([1, 5, 100], 50) == 44
    assert level_of([10, 10], 10) == 5
    assert level_of([3, 4], 10) == 4
    assert level_of([], 10) == 0
