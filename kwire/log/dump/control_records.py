"""Decoding control records: transaction markers, and the control records of KRaft's own logs.

Format: the key is ``version int16 | type int16``. The value of a KRaft control record is a message
whose first field is its version; see the classes below.

Source: ControlRecordType, ControlRecordUtils of Kafka; KIP-595, KIP-630, KIP-853.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Any

from kwire.log.dump.lines import Decoded
from kwire.protocol.as_json import as_json
from kwire.protocol.codec import decoder
from kwire.protocol.types import Nested, Schema, array, int16, int32, int64, string, struct, uint16
from kwire.protocol.types import uuid as uuid_kind
from kwire.protocol.wire import MalformedRequest
from kwire.record.control import ControlType
from kwire.record.records import Record

_KEY = Struct(">hh")
_END_TRANSACTION = Struct(">hi")
_VERSION = Struct(">h")


class Voter(Nested):
    """A voter in an election."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid_kind(since=1)


class LeaderChangeMessage(Schema, versions=(0, 1), flexible=0):
    """A leader was elected by these voters."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[Voter] = array(Voter)
    granting_voters: list[Voter] = array(Voter)


class SnapshotHeaderRecord(Schema, versions=(0, 0), flexible=0):
    """The start of a snapshot, which contains every record up to this time."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


class SnapshotFooterRecord(Schema, versions=(0, 0), flexible=0):
    """The end of a complete snapshot."""

    version: int = int16()


class KRaftVersionRecord(Schema, versions=(0, 0), flexible=0):
    """The version of the protocol between voters."""

    version: int = int16()
    k_raft_version: int = int16()


class VoterEndpoint(Nested):
    """The address of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class VoterVersions(Nested):
    """The versions of the protocol that a voter supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class VoterOfSet(Nested):
    """A voter and its addresses."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid_kind()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    k_raft_version_feature: VoterVersions = struct(VoterVersions)


class VotersRecord(Schema, versions=(0, 0), flexible=0):
    """The set of voters from now on."""

    version: int = int16()
    voters: list[VoterOfSet] = array(VoterOfSet)


_KRAFT: Mapping[int, tuple[str, type[Schema]]] = {
    2: ("LeaderChange:", LeaderChangeMessage),
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
    5: ("KRaftVersion", KRaftVersionRecord),
    6: ("KRaftVoters", VotersRecord),
}


def control_record(record: Record) -> Decoded:
    """A decoded control record; MalformedRequest if the record isn't a control record."""
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedRequest("a control record without a type")
    kind = _KEY.unpack_from(record.key)[1]
    value = record.value or b""
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        if len(value) < _END_TRANSACTION.size:
            raise MalformedRequest("a transaction marker without a coordinator epoch")
        name, epoch = ControlType(kind).name, _END_TRANSACTION.unpack_from(value)[1]
        fields: dict[str, Any] = {"endTxnMarker": name, "coordinatorEpoch": epoch}
        return Decoded(f"endTxnMarker: {name} coordinatorEpoch: {epoch}", fields)
    if kind not in _KRAFT:
        return Decoded(f"controlType: UNKNOWN({kind})", {"controlType": kind})
    label, schema = _KRAFT[kind]
    message = _decode(schema, value)
    return Decoded(f"{label} {compact_json(message)}", {label.rstrip(":"): message})


def compact_json(value: Any) -> str:
    """JSON without blanks, as Kafka's tools print it."""
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _decode(schema: type[Schema], value: bytes) -> dict[str, Any]:
    if len(value) < _VERSION.size:
        raise MalformedRequest(f"{schema.__name__} without a version")
    (version,) = _VERSION.unpack_from(value)
    first, last = schema.VERSIONS
    if not first <= version <= last:
        raise MalformedRequest(f"{schema.__name__} has no version {version}")
    return as_json(decoder(schema, version)(value, 0)[0], version)
