"""The records of ``__share_group_state``, written and read in Kafka's formats.

Format: key and value begin with an int16. In a key it is the record's type, 0 for a snapshot and 1
for an update, in a value the version of its schema. A snapshot without a value is a tombstone.

Source: ShareCoordinatorRecordHelpers of Kafka.
"""

from collections.abc import Iterable
from struct import Struct

from kwire.coordinator import share_state_records as schemas
from kwire.coordinator.records import CoordinatorRecord, new_record, parse_value, record_type
from kwire.protocol.codec import decoder
from kwire.share.key import SharePartitionKey
from kwire.share.state_batches import StateBatch

SNAPSHOT, UPDATE = 0, 1
"""The types of the records."""

_VERSION = Struct(">h")


def snapshot_record(
    key: SharePartitionKey, value: schemas.ShareSnapshotValue | None
) -> CoordinatorRecord:
    """The record of a share partition's whole state, or its tombstone."""
    return new_record(SNAPSHOT, schemas.ShareSnapshotKey(**key._asdict()), value)


def update_record(key: SharePartitionKey, value: schemas.ShareUpdateValue) -> CoordinatorRecord:
    """The record of changes since the snapshot."""
    return new_record(UPDATE, schemas.ShareUpdateKey(**key._asdict()), value)


def parse_key(key: bytes) -> tuple[int, SharePartitionKey] | None:
    """The type and the share partition of a key; None for an unknown type; MalformedRequest."""
    kind = record_type(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    parsed = decoder(schemas.ShareSnapshotKey, 0)(key, _VERSION.size)[0]  # both have these fields
    return kind, SharePartitionKey(parsed.group_id, parsed.topic_id, parsed.partition)


def parse_snapshot(value: bytes) -> schemas.ShareSnapshotValue:
    """The value of a snapshot; MalformedRequest."""
    return parse_value(schemas.ShareSnapshotValue, value)


def parse_update(value: bytes) -> schemas.ShareUpdateValue:
    """The value of an update; MalformedRequest."""
    return parse_value(schemas.ShareUpdateValue, value)


def written_batches(batches: Iterable[StateBatch]) -> list[schemas.StateBatch]:
    """Batches as a record has them."""
    return [schemas.StateBatch(**one._asdict()) for one in batches]


def read_batches(batches: Iterable[schemas.StateBatch]) -> list[StateBatch]:
    """The batches of a record."""
    return [
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in batches
    ]
