"""Control batches: the markers that end a transaction.

Format: a batch with the control bit and one record. The record's key is ``version int16 |
type int16`` (0 abort, 1 commit), its value ``version int16 | coordinator_epoch int32``. A marker
takes an offset like any other record.
Source: ControlRecordType and EndTransactionMarker of Kafka.
"""

from enum import IntEnum
from struct import Struct

from kwire.errors import ErrorCode
from kwire.record.batch import InvalidRecords, RecordBatch
from kwire.record.records import BatchBuilder, ProducerState, records
from kwire.record.streaming_decompressor import Limits

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_SMALL = Limits(max_bytes=64 * 1024)


class ControlType(IntEnum):
    """The type of a control record; larger numbers belong to the KRaft log."""

    ABORT = 0
    COMMIT = 1


def end_transaction_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
) -> bytearray:
    """The batch that ends a producer's transaction in one partition."""
    builder = BatchBuilder()
    builder.add(timestamp, _KEY.pack(0, control_type), _VALUE.pack(0, coordinator_epoch))
    producer = ProducerState(producer_id, producer_epoch)
    return builder.build(producer=producer, transactional=True, control=True)


def control_type(batch: RecordBatch) -> int:
    """The type of a control batch's record, as a number: ControlType doesn't name all types.

    Raises InvalidRecords (INVALID_RECORD) if the record's key isn't a control key.
    """
    return _control_record(batch)[0]


def coordinator_epoch(batch: RecordBatch) -> int:
    """The epoch of the coordinator that wrote an end-transaction marker.

    Raises InvalidRecords (INVALID_RECORD) if the record's key or value isn't that of a marker.
    """
    value = _control_record(batch)[1]
    if value is None or len(value) < _VALUE.size:
        raise InvalidRecords(ErrorCode.INVALID_RECORD, "an end-transaction marker without a value")
    return int(_VALUE.unpack_from(value)[1])


def _control_record(batch: RecordBatch) -> tuple[int, bytes | None]:
    """Type and value of the only record of a control batch."""
    for record in records(batch, _SMALL):
        if record.key is None or len(record.key) < _KEY.size:
            break
        return int(_KEY.unpack_from(record.key)[1]), record.value
    raise InvalidRecords(ErrorCode.INVALID_RECORD, "a control batch without a control record")
