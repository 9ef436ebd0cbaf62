"""Batches of records that a test writes, and the records of those that it reads."""

from typing import TypeAlias

from kwire.protocol.file_slice import Records
from kwire.record.batch import RecordBatch, complete_batches
from kwire.record.records import NO_PRODUCER, BatchBuilder, Headers, ProducerState, Record
from kwire.record.records import records as records_of

NOW_MS = 1_700_000_000_000
"""The time of a record, if a test doesn't say another."""

Item: TypeAlias = bytes | tuple[bytes | None, bytes | None] | None
"""A value, or a key and a value."""


def batch(
    *items: Item,
    key: bytes | None = None,
    timestamp: int = NOW_MS,
    producer: ProducerState = NO_PRODUCER,
    transactional: bool = False,
    compression: int = 0,
    headers: Headers = (),
) -> bytes:
    """A batch with a record for each item, all of the same time; by default one record.

    ``key`` is that of the values that come without one.
    """
    builder = BatchBuilder()
    for item in items or (b"value",):
        own_key, value = item if isinstance(item, tuple) else (key, item)
        builder.add(timestamp, own_key, value, headers)
    built = builder.build(producer=producer, transactional=transactional, compression=compression)
    return bytes(built)


def batches_in(found: Records) -> list[RecordBatch]:
    """The whole batches of an answer, which may end within one."""
    assert isinstance(found, bytes | bytearray | memoryview)
    return list(complete_batches(bytes(found)))


def base_offsets(found: Records) -> list[int]:
    """The base offset of each whole batch of an answer."""
    return [one.base_offset for one in batches_in(found)]


def records_in(found: Records) -> list[Record]:
    """The records in the whole batches of an answer; those of markers are none."""
    batches = batches_in(found)
    return [record for one in batches if not one.is_control for record in records_of(one)]
