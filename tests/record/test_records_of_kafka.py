"""What Apache Kafka 4.4.0 wrote to disk is read record for record as its own consumer read it."""

import base64
import gzip
import json
import tarfile
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from kwire.record.batch import RecordBatch, batches
from kwire.record.record_validator import validate_records
from kwire.record.records import ProducerState, Record, build_batch, records

DATA = Path(__file__).parent.parent / "data"


@cache
def segments() -> dict[str, bytes]:
    """``topic-partition`` → all bytes of its segments, trailing preallocated zeros cut."""
    found: dict[str, list[tuple[str, bytes]]] = defaultdict(list)
    with tarfile.open(DATA / "kafka-4.4-data-dir.tar.gz") as archive:
        for member in archive:
            if member.name.endswith(".log"):
                file = archive.extractfile(member)
                assert file is not None
                _, partition, name = member.name.split("/")
                found[partition].append((name, file.read()))
    return {
        partition: b"".join(content for _, content in sorted(parts))
        for partition, parts in found.items()
    }


@cache
def expected() -> dict[str, list[list[object]]]:
    """``topic-partition/isolation`` → rows as Kafka's consumer saw them."""
    with gzip.open(DATA / "kafka-4.4-expected.json.gz") as file:
        loaded: dict[str, list[list[object]]] = json.load(file)
    return loaded


def row(batch: RecordBatch, record: Record) -> list[object]:
    """A record in the form of the expected rows."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    return [
        record.offset,
        batch.timestamp_type + 1,  # the rows number them as librdkafka does: 1 is CreateTime
        record.timestamp,
        text(record.key),
        text(record.value),
        [[name, text(value)] for name, value in record.headers],
    ]


PARTITIONS = sorted(
    key.removesuffix("/read_uncommitted") for key in expected() if key.endswith("/read_uncommitted")
)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_record_is_read_as_kafka_reads_it(partition: str) -> None:
    """Offsets, timestamps, keys, values and headers of every codec; control batches left out."""
    rows = []
    for batch in batches(segments()[partition]):
        batch.verify_crc()
        if not batch.is_control:
            rows += [row(batch, record) for record in records(batch)]
    wanted = expected()[f"{partition}/read_uncommitted"]
    first = wanted[0][0] if wanted else 0
    assert isinstance(first, int)
    assert [r for r in rows if isinstance(r[0], int) and r[0] >= first] == wanted


@pytest.mark.parametrize("partition", PARTITIONS)
def test_uncompressed_batches_are_built_byte_for_byte(partition: str) -> None:
    """A batch taken apart and built again is the batch that Kafka wrote."""
    for batch in batches(segments()[partition]):
        plain = batch.attributes & ~0x10 == 0 and batch.records_count
        if not plain or batch.last_offset_delta + 1 != batch.records_count:
            continue
        list(validate_records(batch))
        producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        built = build_batch(
            records(batch),
            base_offset=batch.base_offset,
            producer=ProducerState(*producer),
            transactional=batch.is_transactional,
            leader_epoch=batch.partition_leader_epoch,
        )
        assert bytes(built) == bytes(batch.data)
