"""The coordinator's records against those that Apache Kafka 4.4.0 wrote itself."""

import io
import tarfile
from pathlib import Path

import pytest

from kwire.coordinator.consumer.member import target_to_record
from kwire.coordinator.consumer.records import (
    CONSUMER_GROUP_TYPES,
    RECORDS,
    MetadataValue,
    current_member_assignment,
    member_metadata,
    metadata,
    target_assignment_member,
    target_assignment_metadata,
)
from kwire.coordinator.group import EMPTY_STATE
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.modern_records import TargetAssignmentMetadataValue
from kwire.coordinator.records import (
    GROUP_METADATA_TYPE,
    OFFSET_COMMIT_TYPE,
    GroupMetadataValue,
    OffsetCommitValue,
    group_metadata,
    offset_commit,
    parse_group_metadata_key,
    parse_offset_commit_key,
    parse_value,
    record_type,
)
from kwire.coordinator.settings import GroupSettings
from kwire.protocol.codec import MalformedRequest
from kwire.record.batch import batches
from kwire.record.records import Record, records

DATA_DIR = Path(__file__).parent.parent / "data" / "kafka-4.4-data-dir.tar.gz"


@pytest.fixture(scope="module")
def kafkas_records() -> list[Record]:
    """Every record of every partition of ``__consumer_offsets`` in the data directory."""
    found: list[Record] = []
    with tarfile.open(fileobj=io.BytesIO(DATA_DIR.read_bytes())) as archive:
        for member in archive.getmembers():
            if "__consumer_offsets-" in member.name and member.name.endswith(".log"):
                content = archive.extractfile(member)
                assert content is not None
                for batch in batches(content.read()):
                    found += records(batch)
    assert found
    return found


def test_kafkas_records_are_written_alike(kafkas_records):
    """What Kafka wrote, read and written again, is the same bytes."""
    kinds = set()
    for record in kafkas_records:
        assert record.key is not None
        kind = record_type(record.key)
        if record.value is None:
            continue
        if kind == OFFSET_COMMIT_TYPE:
            key = parse_offset_commit_key(record.key)
            value = parse_value(OffsetCommitValue, record.value)
            again = offset_commit(key.group, key.topic, key.partition, value)
        elif kind == GROUP_METADATA_TYPE:
            group = parse_value(GroupMetadataValue, record.value)
            again = group_metadata(parse_group_metadata_key(record.key).group, group)
        else:
            continue
        kinds.add(kind)
        assert again[:2] == (record.key, record.value)
    assert kinds == {OFFSET_COMMIT_TYPE, GROUP_METADATA_TYPE}


def test_kafkas_records_of_consumer_groups_are_written_alike(kafkas_records):
    """Read into a group and written again they are the same bytes, whatever they are about."""
    coordinator = GroupCoordinator(GroupSettings(), lambda: "")
    kinds = set()
    for record in kafkas_records:
        kind = record_type(record.key)
        if kind not in CONSUMER_GROUP_TYPES:
            continue
        coordinator.replay(record, -1, 0, loading=True)
        if record.value is not None:
            group = coordinator.groups["next-gen-group"]
            assert (record.key, record.value) in [written[:2] for written in _records_of(group)]
            kinds.add(kind)
    assert kinds == {one.number for one in RECORDS}


def _records_of(group):
    """Every record that a consumer group stands in."""
    group_id = group.group_id
    epochs = MetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash)
    target = TargetAssignmentMetadataValue(
        assignment_epoch=group.target_epoch, assignment_timestamp=group.target_timestamp_ms
    )
    yield metadata(group_id, epochs)
    yield target_assignment_metadata(group_id, target)
    for member_id, member in group.members.items():
        has = group.target_of(member_id)
        yield member_metadata(group_id, member_id, member.description())
        yield target_assignment_member(group_id, member_id, target_to_record(has))
        yield current_member_assignment(group_id, member_id, member.assignment())


def test_kafkas_groups_are_loaded(kafkas_records):
    """Committed offsets and generations are there, and what is left of consumer groups."""
    coordinator = GroupCoordinator(GroupSettings(), lambda: "")
    for record in kafkas_records:
        coordinator.replay(record, -1, 0, loading=True)
    coordinator.begin(0)
    for group_id in coordinator.group_ids():
        assert coordinator.state_of(group_id) == EMPTY_STATE
    offsets = {
        group_id: {(t, p): o.offset for t, p, o in coordinator.offsets.of(group_id).items()}
        for group_id in coordinator.group_ids()
    }
    assert offsets["classic-group"] == {("plain", 0): 369, ("plain", 1): 631}
    assert offsets["next-gen-group"] == {("plain", 0): 369, ("plain", 1): 631}


@pytest.mark.parametrize("version", range(4))
def test_values_of_older_versions_are_read(version):
    """Logs that older brokers wrote are taken over."""
    from kwire.protocol.codec import encode

    commit = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    packed = version.to_bytes(2) + encode(commit, version)
    assert parse_value(OffsetCommitValue, packed) == commit
    group = GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", leader="a")
    packed = version.to_bytes(2) + encode(group, version)
    assert parse_value(GroupMetadataValue, packed) == group


def test_a_generation_of_the_newest_version_is_read():
    """Version 4 has compact lengths and tagged fields; a broker may have written it."""
    fields = b"\x09consumer" + b"\0\0\0\3" + b"\x06range" + b"\x02a" + b"\xff" * 8 + b"\1\0"
    assert parse_value(GroupMetadataValue, b"\0\4" + fields) == GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="a"
    )


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x09", b"\x00\x04\x00", b"\xff\xff"])
def test_damaged_values_are_malformed(value):
    """A value that is cut short, or of a version nobody knows, says so."""
    with pytest.raises(MalformedRequest):
        parse_value(OffsetCommitValue, value)
