"""The records of ``__cluster_metadata``: the frame around a record, and the class of each type.

Format of a record's value: ``frame version uvarint (1) | type uvarint | version uvarint | fields``.
Records have no key.

Source: MetadataRecordSerde, MetadataRecordType of Kafka.
"""

import re
from typing import NamedTuple

from kwire.metadata.kraft import access_records, cluster_records, topic_records
from kwire.protocol.codec import decoder, encode
from kwire.protocol.types import Schema
from kwire.protocol.wire import MalformedRequest, append_unsigned_varint, read_unsigned_varint

_FRAME_VERSION = 1
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

CLASSES: dict[int, type[Schema]] = {
    0: cluster_records.RegisterBrokerRecord,
    1: cluster_records.UnregisterBrokerRecord,
    2: topic_records.TopicRecord,
    3: topic_records.PartitionRecord,
    4: topic_records.ConfigRecord,
    5: topic_records.PartitionChangeRecord,
    7: cluster_records.FenceBrokerRecord,
    8: cluster_records.UnfenceBrokerRecord,
    9: topic_records.RemoveTopicRecord,
    10: access_records.DelegationTokenRecord,
    11: access_records.UserScramCredentialRecord,
    12: cluster_records.FeatureLevelRecord,
    14: access_records.ClientQuotaRecord,
    15: cluster_records.ProducerIdsRecord,
    17: cluster_records.BrokerRegistrationChangeRecord,
    18: access_records.AccessControlEntryRecord,
    19: access_records.RemoveAccessControlEntryRecord,
    20: cluster_records.NoOpRecord,
    21: cluster_records.ZkMigrationStateRecord,
    22: access_records.RemoveUserScramCredentialRecord,
    23: cluster_records.BeginTransactionRecord,
    24: cluster_records.EndTransactionRecord,
    25: cluster_records.AbortTransactionRecord,
    26: access_records.RemoveDelegationTokenRecord,
    27: cluster_records.RegisterControllerRecord,
    28: topic_records.ClearElrRecord,
}
"""The record classes by the number of the record type."""

_TYPES = {record_class: number for number, record_class in CLASSES.items()}


class MetadataRecord(NamedTuple):
    """The fields of a record, and the version in which Kafka wrote it."""

    fields: Schema
    version: int

    @property
    def type_name(self) -> str:
        """The name of the record's type, as Kafka's tools print it."""
        return _WORD.sub("_", type(self.fields).__name__).upper()


def parse_metadata_record(value: bytes) -> MetadataRecord:
    """The metadata record in ``value``.

    Raises MalformedRequest if ``value`` is no metadata record, or is newer than Kafka 4.3. Unknown
    tagged fields are skipped, as everywhere in Kafka's formats.
    """
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        if frame_version != _FRAME_VERSION:
            raise MalformedRequest(f"a metadata record in frame version {frame_version}")
        number, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError as error:
        raise MalformedRequest("a metadata record without a whole frame") from error
    record_class = CLASSES.get(number)
    if record_class is None:
        raise MalformedRequest(f"a metadata record of the unknown type {number}")
    first, last = record_class.VERSIONS
    if not first <= version <= last:
        raise MalformedRequest(f"{record_class.__name__} has no version {version}")
    fields, position = decoder(record_class, version)(value, position)
    if position != len(value):
        raise MalformedRequest(f"{len(value) - position} bytes follow a {record_class.__name__}")
    return MetadataRecord(fields, version)


def frame_metadata_record(fields: Schema, version: int) -> bytes:
    """The value of a record with these fields."""
    out = bytearray()
    for number in (_FRAME_VERSION, _TYPES[type(fields)], version):
        append_unsigned_varint(out, number)
    return bytes(out + encode(fields, version))
