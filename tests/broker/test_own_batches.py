"""Batches of the broker's own coordinators: the fast way and the slow one leave the same behind."""

from random import Random

import pytest

from kwire.errors import KafkaError
from kwire.log.producer_snapshot import to_snapshot
from kwire.log.validation import AppendOrigin
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import NO_PRODUCER, BatchBuilder, ProducerState
from tests.support.in_process import running_server

START_MS = 1_700_000_000_000


def _batch(random: Random, now_ms: int) -> bytearray:
    """What a coordinator writes: records, of a transaction now and then, or a marker."""
    if random.random() < 0.1:
        return end_transaction_marker(
            ControlType.COMMIT,
            producer_id=7,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=now_ms,
        )
    builder = BatchBuilder()
    for _ in range(random.choice((1, 1, 3, 20))):
        builder.add(now_ms, b"key", None if random.random() < 0.2 else random.randbytes(30))
    is_transactional = random.random() < 0.1
    producer = ProducerState(7, 0, -1) if is_transactional else NO_PRODUCER
    compression = random.choice((0, 0, 1))
    return builder.build(producer=producer, transactional=is_transactional, compression=compression)


def _files(partition) -> list[bytes]:
    return [segment.path(".log").read_bytes() for segment in partition.log.segments]


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact", "segment.bytes": "1048576", "segment.ms": "2000"},
        {"message.timestamp.type": "LogAppendTime"},
        {"max.message.bytes": "300"},
        {"min.insync.replicas": "2"},
        {"flush.messages": "1"},
    ],
    ids=lambda configs: next(reversed(configs)),
)
async def test_both_ways_leave_the_same(tmp_path, configs):
    """Offsets, errors, bytes, and how far consumers see."""
    random = Random(1)
    async with running_server(tmp_path) as server:
        for name in ("fast", "slow"):
            await server.topic(name, **configs)
        fast, slow = (server.broker.partition(name, 0) for name in ("fast", "slow"))
        now_ms = START_MS
        for _ in range(150):
            now_ms += random.choice((0, 1, 300))
            data = _batch(random, now_ms)
            outcomes: list[object] = []
            try:
                outcomes.append(fast.append_own(bytearray(data), now_ms))
            except KafkaError as error:
                outcomes.append((error.code, str(error).replace("fast", "slow")))
            try:
                info = slow.append(data, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
                outcomes.append(info.first_offset)
            except KafkaError as error:
                outcomes.append((error.code, str(error)))
            assert outcomes[0] == outcomes[1]
            assert fast.high_watermark == slow.high_watermark
            assert (fast.flush is None) == (slow.flush is None)
        assert _files(fast) == _files(slow)
        assert to_snapshot(fast.log.producers) == to_snapshot(slow.log.producers)
