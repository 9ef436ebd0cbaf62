"""Control batches: markers as Kafka writes them, and refusal of what only pretends to be one."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import RecordBatch
from kwire.record.control import (
    ControlType,
    control_type,
    coordinator_epoch,
    end_transaction_marker,
)
from kwire.record.records import BatchBuilder, records


def control_batch(key: bytes | None, value: bytes | None) -> RecordBatch:
    """A control batch of one record."""
    builder = BatchBuilder()
    builder.add(0, key, value)
    return RecordBatch(builder.build(control=True))


@pytest.mark.parametrize("kind", ControlType)
def test_a_marker_says_who_ended_what(kind: ControlType) -> None:
    """Type, producer and coordinator epoch are in it, and the bits consumers look at."""
    data = end_transaction_marker(
        kind, producer_id=9, producer_epoch=2, coordinator_epoch=5, timestamp=77
    )
    batch = RecordBatch(data)
    batch.verify_crc()
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    assert (batch.records_count, batch.last_offset_delta, batch.max_timestamp) == (1, 0, 77)
    assert (control_type(batch), coordinator_epoch(batch)) == (kind, 5)


def test_types_of_the_raft_log_are_numbers() -> None:
    """Types without a name here, as LeaderChange (2), are told as they are."""
    assert control_type(control_batch(b"\0\0\0\2", b"")) == 2


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_control_record_needs_a_key(key: bytes | None) -> None:
    """Too short or null is no control record."""
    with pytest.raises(KafkaError) as caught:
        control_type(control_batch(key, b""))
    assert caught.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("value", [None, b"\0\0\0"])
def test_a_marker_needs_a_value(value: bytes | None) -> None:
    """Without it there is no coordinator epoch."""
    with pytest.raises(KafkaError, match="without a value"):
        coordinator_epoch(control_batch(b"\0\0\0\1", value))


@pytest.mark.parametrize(("kind", "key"), [("ABORT", "00000000"), ("COMMIT", "00000001")])
def test_markers_are_written_as_kafka_writes_them(kind: str, key: str) -> None:
    """EndTransactionMarker of Kafka: version 0, then 0 for an abort and 1 for a commit."""
    marker = end_transaction_marker(
        ControlType[kind], producer_id=7, producer_epoch=3, coordinator_epoch=5, timestamp=0
    )
    [record] = records(RecordBatch(marker))
    assert record.key == bytes.fromhex(key)
    assert record.value == bytes.fromhex("000000000005")
