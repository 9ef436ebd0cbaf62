"""Reads the metadata that Apache Kafka keeps beside its partitions, in ``__cluster_metadata-0``.

Format: ``<offset>-<epoch>.checkpoint`` is a snapshot of everything before that offset, as batches
of metadata records between a header and a footer; the segments are a log of further records.

Rules: the metadata is that of the newest snapshot, changed by the records of the log from the
snapshot's offset on. A batch that is cut short at the end of the log was never committed, and is
ignored. An unknown record or a gap is an error: kwire guesses nothing.

Source: SnapshotReader, KafkaRaftLog of Kafka; KIP-630.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kwire.log.disk import Disk
from kwire.log.reader import PartitionReader
from kwire.metadata.kraft.cluster import KraftCluster
from kwire.metadata.kraft.metadata_record import parse_metadata_record
from kwire.record.batch import InvalidRecords, RecordBatch, batches
from kwire.record.records import records

DIRECTORY_NAME = "__cluster_metadata-0"

_SNAPSHOT = re.compile(r"(?P<offset>\d{20})-\d{10}\.checkpoint")


class UnreadableMetadata(Exception):
    """Kafka's metadata can't be read; the text names the path and says why."""


class KafkaMetadata(NamedTuple):
    """The content of Kafka's metadata; ``end_offset`` is the offset after its last record."""

    cluster: KraftCluster
    end_offset: int


def find_metadata(directories: Sequence[Path], disk: Disk) -> Path | None:
    """The directory of Kafka's metadata in one of the data directories; None if there is none."""
    for directory in directories:
        try:
            if DIRECTORY_NAME in disk.names(directory):
                return directory / DIRECTORY_NAME
        except OSError:
            continue  # the code that opens the directory reports its error
    return None


def metadata_end_offset(directory: Path, disk: Disk) -> int:
    """The offset after the last record; UnreadableMetadata."""
    try:
        return PartitionReader(directory, disk).end_offset
    except (OSError, ValueError) as error:
        raise UnreadableMetadata(f"{directory} can't be read: {error}") from error


def read_metadata(directory: Path, disk: Disk) -> KafkaMetadata:
    """Read all of Kafka's metadata; UnreadableMetadata."""
    cluster = KraftCluster()
    path = directory
    try:
        names = disk.names(directory)
        snapshots = [match for match in map(_SNAPSHOT.fullmatch, names) if match]
        start = 0
        if snapshots:
            newest = max(snapshots, key=lambda match: match[0])
            path = directory / newest[0]
            start = int(newest["offset"])
            _replay(cluster, _snapshot_batches(path, disk))
        path = directory
        reader = PartitionReader(directory, disk)
        if reader.log_start_offset > start:
            raise ValueError(f"the records between {start} and {reader.log_start_offset} are gone")
        _replay(cluster, reader.batches(start))
        return KafkaMetadata(cluster, max(reader.end_offset, start))
    except (OSError, ValueError, LookupError, InvalidRecords) as error:
        raise UnreadableMetadata(f"{path} can't be read: {error}") from error


def _snapshot_batches(path: Path, disk: Disk) -> Iterator[RecordBatch]:
    for batch in batches(disk.read_bytes(path) or b""):
        batch.verify_crc()
        yield batch


def _replay(cluster: KraftCluster, written: Iterator[RecordBatch]) -> None:
    for batch in written:
        if batch.is_control:
            continue
        for record in records(batch):
            if record.value is None:
                raise ValueError(f"the record at offset {record.offset} has no value")
            try:
                cluster.apply(parse_metadata_record(record.value))
            except (LookupError, ValueError) as error:
                problem = f"the record at offset {record.offset} doesn't fit: {error!r}"
                raise ValueError(problem) from error
