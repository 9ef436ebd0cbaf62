"""The records of Kafka's internal topics as JSON, for ``kwire dump-log``.

Rules: as in Kafka's tools, a key is printed as its type and its fields, a payload as its version
and its fields, and a null payload as ``<DELETE>``. For an unknown or damaged record, a message is
printed in place of its key, and the dump goes on.

Source: OffsetsMessageParser, TransactionLogMessageParser, ShareGroupStateMessageParser and
ClusterMetadataLogMessageParser of Kafka's DumpLogSegments.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from kwire.coordinator import records as groups
from kwire.coordinator import share_state_records as share_state
from kwire.coordinator.consumer import records as consumer
from kwire.coordinator.records import parse_value, record_type
from kwire.coordinator.share import records as share
from kwire.coordinator.streams import records as streams
from kwire.coordinator.transaction import records as transactions
from kwire.coordinator.transaction.state import TransactionState
from kwire.log.dump.control_records import compact_json
from kwire.log.dump.lines import Decoded
from kwire.metadata.kraft.metadata_record import parse_metadata_record
from kwire.protocol.as_json import as_json
from kwire.protocol.codec import decoder
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kwire.protocol.types import Schema
from kwire.protocol.wire import MalformedRequest
from kwire.record.records import Record

Types: TypeAlias = Mapping[int, tuple[type[Schema], type[Schema]]]
Pair: TypeAlias = tuple[Decoded | None, Decoded | None]

GROUP_TYPES: Types = {
    0: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    1: (groups.OffsetCommitKey, groups.OffsetCommitValue),
    2: (groups.GroupMetadataKey, groups.GroupMetadataValue),
    **{
        one.number: (one.key, one.value)
        for one in (
            *(*consumer.RECORDS, consumer.regular_expression),
            *(*share.RECORDS, share.state_partition_metadata),
            *(*streams.RECORDS, streams.topology),
        )
        if one.value is not None
    },
}
"""Key and value of each type of record in ``__consumer_offsets``."""

_TRANSACTION_TYPES: Types = {0: (transactions.TransactionLogKey, transactions.TransactionLogValue)}
_SHARE_STATE_TYPES: Types = {
    0: (share_state.ShareSnapshotKey, share_state.ShareSnapshotValue),
    1: (share_state.ShareUpdateKey, share_state.ShareUpdateValue),
}
_STATES = {int(state): state.title for state in TransactionState}
"""Tools show these names since Kafka 4.4 (KAFKA-20712)."""

_TYPE_BYTES = 2
_EMBEDDED: dict[str, type[Schema]] = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}


def decode_offsets(record: Record) -> Pair:
    """A record of ``__consumer_offsets``; decodes the subscriptions of classic consumers too."""
    return _decode(record, GROUP_TYPES)


def decode_transaction_log(record: Record) -> Pair:
    """A record of ``__transaction_state``."""
    return _decode(record, _TRANSACTION_TYPES)


def decode_share_group_state(record: Record) -> Pair:
    """A record of ``__share_group_state``."""
    return _decode(record, _SHARE_STATE_TYPES)


def decode_cluster_metadata(record: Record) -> Pair:
    """A record of ``__cluster_metadata``."""
    try:
        parsed = parse_metadata_record(record.value or b"")
    except MalformedRequest as error:
        text = f"Error at {record.offset}, skipping. {error}"
        return None, Decoded(text, {"malformed": str(error)})
    fields = as_json(parsed.fields, parsed.version)
    return None, _shown({"type": parsed.type_name, "version": parsed.version, "data": fields})


def _decode(record: Record, types: Types) -> Pair:
    kind = record_type(record.key or b"")
    if kind not in types:
        text = f"Unknown record type {kind} at offset {record.offset}, skipping."
        return Decoded(text, {"unknownType": kind}), None
    key_class, value_class = types[kind]
    try:
        # Types 0 and 1 are both offset commits; the type is then the version of the key.
        version = kind if key_class.VERSIONS[0] <= kind <= key_class.VERSIONS[1] else 0
        key = decoder(key_class, version)(record.key or b"", _TYPE_BYTES)[0]
        shown_key = _shown({"type": str(kind), "data": as_json(key, version)})
        if record.value is None:
            return shown_key, Decoded("<DELETE>", None)
        value = parse_value(value_class, record.value)
    except MalformedRequest as error:
        text = f"Error at offset {record.offset}, skipping. {error}"
        return Decoded(text, {"malformed": str(error)}), None
    value_version = int.from_bytes(record.value[:_TYPE_BYTES])
    data = as_json(value, value_version)
    if isinstance(value, groups.GroupMetadataValue) and value.protocol_type == "consumer":
        _open_members(value, data)
    if isinstance(value, transactions.TransactionLogValue):
        data["transactionStatus"] = _STATES.get(value.transaction_status, value.transaction_status)
    return shown_key, _shown({"version": str(value_version), "data": data})


def _open_members(value: groups.GroupMetadataValue, data: dict[str, Any]) -> None:
    """Decode the subscriptions and assignments of a classic consumer group's members."""
    for member, shown in zip(value.members, data["members"], strict=True):
        for name, schema in _EMBEDDED.items():
            opened = _embedded(schema, getattr(member, name))
            if opened is not None:
                shown[name] = opened


def _embedded(schema: type[Schema], content: bytes) -> dict[str, Any] | None:
    """Decode a field that clients fill in a group's records; None if it holds something else."""
    version = int.from_bytes(content[:_TYPE_BYTES], signed=True)
    first, last = schema.VERSIONS
    if len(content) < _TYPE_BYTES or version < first:
        return None
    version = min(version, last)
    try:
        return as_json(decoder(schema, version)(content, _TYPE_BYTES)[0], version)
    except MalformedRequest:
        return None


def _shown(value: dict[str, Any]) -> Decoded:
    return Decoded(compact_json(value), value)
