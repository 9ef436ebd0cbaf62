"""The coordinators' records as kwire declares them are those of Apache Kafka 4.4.0.

``tests/data/kafka-4.4-coordinator-records.txt.gz`` has each record's fields in each version, as
Kafka's own classes tell them.
"""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cli.record_decoders import GROUP_TYPES
from kwire.coordinator import share_state_records
from kwire.coordinator.transaction import records as transaction_records
from kwire.protocol import types

TOLD = Path(__file__).parent.parent / "data" / "kafka-4.4-coordinator-records.txt.gz"

NUMBERED = {
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    16: "ConsumerGroupRegularExpression",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""Kafka's names of the records in ``__consumer_offsets``, by type: several share a class here."""

CLASSES: dict[str, type[types.Schema]] = {
    name: found
    for module in (transaction_records, share_state_records)
    for name, found in vars(module).items()
    if isinstance(found, types.MessageType) and hasattr(found, "VERSIONS")
    if found.__module__ == module.__name__
}
for number, kafkas in NUMBERED.items():
    CLASSES[f"{kafkas}Key"], CLASSES[f"{kafkas}Value"] = GROUP_TYPES[number]


def test_every_type_of_record_has_a_name() -> None:
    """Type 0 is an offset commit of old, which has the key of type 1."""
    assert {0, *NUMBERED} == GROUP_TYPES.keys()


def told() -> dict[str, dict[int, list[str]]]:
    """The words of each version of each record."""
    text = gzip.decompress(TOLD.read_bytes()).decode()
    found: dict[str, dict[int, list[str]]] = {}
    for part in f"\n{text}".split("\n## ")[1:]:
        head, _, body = f"\n{part}".partition("\nv0: ")
        if name := re.match(r"\s*(\w+)  versions \d", head):
            versions = re.split(r"\nv(\d+): ", f"\nv0: {body}")[1:]
            found[name[1]] = {
                int(number): words.split()
                for number, words in zip(versions[::2], versions[1::2], strict=True)
            }
    return found


def words(fields: tuple[types.Field, ...], version: int, *, flexible: bool) -> Iterator[str]:
    """What Kafka tells of a struct."""
    here = [field for field in fields if field.is_in(version)]
    yield "{"
    for field in here:
        if field.tag is None:
            yield f"{field.name}:"
            yield from kind(field, version, flexible=flexible)
    if flexible:
        yield from ("_tagged_fields:", "tagged")
        for field in here:
            if field.tag is not None:
                yield f"{field.tag}={field.name}:"
                yield from kind(field, version, flexible=flexible)
    yield "}"


def kind(field: types.Field, version: int, *, flexible: bool) -> Iterator[str]:
    """A field's type, whether it is an array, and whether it may be null.

    Kafka's classes don't tell that of a struct.
    """
    nullable = field.is_nullable_in(version)
    if field.kind is types.ARRAY:
        yield from (["compact"] if flexible else []) + ["array"]
    of = field.element or field.kind
    if isinstance(of, types.MessageType):
        yield from words(of.FIELDS, version, flexible=flexible)
    else:
        name = {"binary": "bytes"}.get(of.name, of.name).upper()
        if name in ("STRING", "BYTES"):
            is_null = nullable and field.kind is not types.ARRAY
            name = ("COMPACT_" if flexible else "") + ("NULLABLE_" if is_null else "") + name
        yield name
    if nullable and field.kind is types.ARRAY:
        yield "nullable"


def message_versions(message: type[types.Schema]) -> range:
    """All versions of a record."""
    return range(message.VERSIONS[0], message.VERSIONS[1] + 1)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_record_is_kafkas(name: str) -> None:
    """In every version: fields, their order, types, tags, and what may be null."""
    message = CLASSES[name]
    wanted = told()[name]
    if name.endswith("Key"):  # its version says what kind of record it is
        wanted = dict.fromkeys(message_versions(message), wanted[0])
    assert list(message_versions(message)) == sorted(wanted)
    for version, expected in wanted.items():
        flexible = types.is_flexible(message, version)
        assert list(words(message.FIELDS, version, flexible=flexible)) == expected
