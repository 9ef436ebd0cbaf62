"""The records of ``__transaction_state``, in Kafka's formats.

Format: key and value begin with an int16, the version of their schema. The key's version is 0; a
null value is a tombstone. Values are written in version 1, which is flexible, once
``transaction.version`` is at least 1, and in version 0 before.

Source: TransactionLog, TransactionLogKey.json and TransactionLogValue.json of Kafka.
"""

from struct import Struct

from kwire.coordinator.records import CoordinatorRecord, parse_value
from kwire.coordinator.transaction.state import (
    NO_PRODUCER_EPOCH,
    Transaction,
    TransactionState,
)
from kwire.protocol.codec import decoder, encode
from kwire.protocol.types import Nested, Schema, array, int8, int16, int32, int64, string
from kwire.protocol.wire import MalformedRequest

KEY_VERSION = 0
FLEXIBLE_SINCE = 1
"""The first ``transaction.version`` with values in version 1."""

_VERSION = Struct(">h")


class TransactionLogKey(Schema, versions=(0, 0), flexible=None):
    """The transactional id."""

    transactional_id: str = string()


class PartitionsSchema(Nested):
    """Partitions of one topic."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Schema, versions=(0, 1), flexible=1):
    """The state of a transactional id; times in ms since the epoch."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable=True)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    previous_producer_id: int = int64(since=1, tag=0, default=-1, ignorable=True)
    next_producer_id: int = int64(since=1, tag=1, default=-1, ignorable=True)
    client_transaction_version: int = int16(since=1, tag=2, default=0, ignorable=True)
    next_producer_epoch: int = int16(since=1, tag=3, default=-1, ignorable=True)


WRITTEN: tuple[tuple[type[Schema], int], ...] = (
    (TransactionLogKey, KEY_VERSION),
    (TransactionLogValue, 1),
)
"""The schemas of this module, and the newest versions in which they are written."""


def transaction_record(transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """The record of a transactional id's state."""
    partitions: list[PartitionsSchema] | None = None
    if transaction.state is not TransactionState.EMPTY:
        by_topic: dict[str, list[int]] = {}
        for topic, index in sorted(transaction.partitions):
            by_topic.setdefault(topic, []).append(index)
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic.items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.last_update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        client_transaction_version=transaction.client_version,
    )
    version = 1 if transaction_version >= FLEXIBLE_SINCE else 0
    return CoordinatorRecord(
        transaction_key(transaction.transactional_id),
        _VERSION.pack(version) + encode(value, version),
    )


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return CoordinatorRecord(transaction_key(transactional_id), None)


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    key = TransactionLogKey(transactional_id=transactional_id)
    return _VERSION.pack(KEY_VERSION) + encode(key, KEY_VERSION)


def parse_key(key: bytes) -> str | None:
    """The transactional id of a key; None for a key of a newer version; MalformedRequest."""
    if len(key) < _VERSION.size:
        raise MalformedRequest("a key without a version")
    if _VERSION.unpack_from(key)[0] != KEY_VERSION:
        return None
    return decoder(TransactionLogKey, KEY_VERSION)(key, _VERSION.size)[0].transactional_id


def parse_transaction(transactional_id: str, data: bytes) -> Transaction:
    """The state that a value holds; MalformedRequest for unreadable bytes."""
    value = parse_value(TransactionLogValue, data)
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise MalformedRequest(f"unknown transaction state {value.transaction_status}") from error
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, index)
            for topic in value.transaction_partitions or []
            for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        client_version=value.client_transaction_version,
    )
