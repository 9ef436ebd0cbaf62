"""Takes over data directories of Apache Kafka: its topics, ids, configs and producer ids.

Rules:

- kwire reads the directories before it changes anything in them. Data that kwire can't take over
  stops the start with one line, and Kafka can continue with the directories as before.
- Kafka's metadata says which topics exist. Without metadata, the directories of partitions say it,
  with the topic ids of their ``partition.metadata``; internal topics become compacted again.
- It is an error if Kafka keeps a partition in a directory that wasn't given. A partition that
  belongs in a given directory and is missing there begins empty, as in Kafka.
- The directory of a partition that Kafka's metadata doesn't name is put aside, as Kafka does.
- Producer ids continue after the largest id in a log or a transaction, and far behind the last
  block that Kafka gave away: if Kafka starts here again, it continues with its own next block.

Source: LogManager, DirectoryId of Kafka; KIP-516, KIP-858.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from kwire.broker.kafka_metadata import (
    DIRECTORY_NAME,
    UnreadableMetadata,
    find_metadata,
    metadata_end_offset,
    read_metadata,
)
from kwire.log.disk import Disk
from kwire.log.leader_epochs import LeaderEpochs
from kwire.log.meta_properties import MetaProperties, read_meta_properties
from kwire.log.read_only_disk import ReadOnlyDisk
from kwire.log.reader import PartitionReader
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    ProducerIdsAllocated,
    TakenOver,
    TopicCreated,
)
from kwire.metadata.controller import PRODUCER_ID_BLOCK
from kwire.metadata.embedded import FILE_NAME
from kwire.metadata.image import (
    INTERNAL_TOPICS,
    TRANSACTIONS_TOPIC,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kwire.metadata.kraft.cluster import KraftCluster, NotOneBroker
from kwire.protocol.types import uuid_from_str, uuid_to_str
from kwire.record.batch import InvalidRecords

log = logging.getLogger(__name__)

PartitionDirectories: TypeAlias = Mapping[tuple[str, int], Path]

PRODUCER_IDS_LEFT_TO_KAFKA = 1_000_000_000

_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_UNASSIGNED = frozenset({bytes(16), bytes(15) + b"\x01"})
"""Directory ids of partitions whose directory Kafka hadn't recorded: MIGRATING and UNASSIGNED."""


class KafkaImportError(Exception):
    """kwire can't take over the directories; the text is one line that names the path."""


class KafkaImport(NamedTuple):
    """The first content of a new metadata store, and a log line about it."""

    changes: list[Change]
    summary: str


def check_unchanged(
    image: MetadataImage, directories: Sequence[Path], disk: Disk | None = None
) -> None:
    """Raise KafkaImportError if Kafka has changed its metadata since kwire took it over."""
    disk = disk or ReadOnlyDisk()
    found = find_metadata(directories, disk)
    if found is None:
        return
    try:
        end_offset = metadata_end_offset(found, disk)
    except UnreadableMetadata as error:
        raise KafkaImportError(str(error)) from error
    if end_offset != image.kafka_metadata_end_offset:
        raise KafkaImportError(
            f"Apache Kafka has used {found.parent} since kwire took it over: move the files "
            f"{directories[0] / FILE_NAME}* away to take it over again, "
            f"or {found} to stay with what kwire knows"
        )


def plan_import(
    directories: Sequence[Path], node_id: int, disk: Disk | None = None
) -> KafkaImport | None:
    """The content to take over from these directories, None if they hold nothing of Kafka.

    Raises KafkaImportError. This changes nothing in the directories.
    """
    disk = disk or ReadOnlyDisk()
    metas = [_meta_properties(directory, disk) for directory in directories]
    if any(meta is not None and meta.node_id != node_id for meta in metas):
        return None  # another node's directory; the code that opens it reports that
    partitions = _partition_directories(directories, disk)
    metadata = find_metadata(directories, disk)
    try:
        if metadata is not None:
            return _from_metadata(metadata, node_id, partitions, directories, disk)
        return _from_directories(partitions, node_id, disk) if partitions else None
    except UnreadableMetadata as error:
        raise KafkaImportError(str(error)) from error
    except NotOneBroker as error:
        raise KafkaImportError(f"cannot take over {metadata} of Kafka: {error}") from error


def _partition_directories(directories: Sequence[Path], disk: Disk) -> dict[tuple[str, int], Path]:
    """The directories of partitions, by the topic and the index in their names."""
    found = {}
    for directory in directories:
        try:
            names = disk.names(directory)
        except OSError:
            continue  # the code that opens the directory reports its error
        for name in names:
            match = _PARTITION.fullmatch(name)
            if match and name != DIRECTORY_NAME and (directory / name).is_dir():
                found[match["topic"], int(match["partition"])] = directory / name
    return found


def _from_metadata(
    metadata: Path,
    node_id: int,
    partitions: PartitionDirectories,
    directories: Sequence[Path],
    disk: Disk,
) -> KafkaImport:
    cluster, end_offset = read_metadata(metadata, disk)
    next_producer_id = max(
        cluster.next_producer_id + PRODUCER_IDS_LEFT_TO_KAFKA,
        _next_producer_id(partitions, disk),
    )
    changes = [*cluster.changes(node_id), ProducerIdsAllocated(next_producer_id)]
    _check_directories(cluster, node_id, partitions, directories, disk)
    for what, count in cluster.not_taken_over.items():
        log.warning("%d %s of Kafka are not taken over: their owners make new ones", count, what)
    summary = (
        f"took over {len(cluster.topics)} topics from Apache Kafka, "
        f"whose metadata in {metadata} ends at offset {end_offset}"
    )
    return KafkaImport([*changes, TakenOver(end_offset)], summary)


def _check_directories(
    cluster: KraftCluster,
    node_id: int,
    partitions: PartitionDirectories,
    directories: Sequence[Path],
    disk: Disk,
) -> None:
    """Raise KafkaImportError for the first partition that isn't in its directory."""
    given = _UNASSIGNED | {_directory_id(directory, disk) for directory in directories}
    for topic in cluster.topics.values():
        for index, partition in topic.partitions.items():
            path = partitions.get((topic.name, index))
            if path is not None:
                _check_topic_id(path, topic.topic_id, disk)
                continue
            places = dict(zip(partition.replicas, partition.directories, strict=False))
            if places.get(node_id, bytes(16)) not in given:
                raise KafkaImportError(
                    f"{topic.name}-{index} is in none of "
                    f"{', '.join(map(str, directories))}; give all of Kafka's log.dirs"
                )
            log.warning("%s-%d has no directory and begins empty", topic.name, index)


def _check_topic_id(path: Path, wanted: bytes, disk: Disk) -> None:
    found = _topic_id(path, disk)
    if found not in (None, wanted):
        raise KafkaImportError(
            f"{path} belongs to topic id {uuid_to_str(found or b'')}, "
            f"but Kafka's metadata has {uuid_to_str(wanted)} for its topic"
        )


def _directory_id(directory: Path, disk: Disk) -> bytes:
    """The id of a data directory in Kafka's metadata; 16 zeros if it has none."""
    meta = _meta_properties(directory, disk)
    with suppress(ValueError):
        return uuid_from_str(meta.directory_id) if meta else bytes(16)
    return bytes(16)


def _meta_properties(directory: Path, disk: Disk) -> MetaProperties | None:
    try:
        return read_meta_properties(directory, disk)
    except (OSError, ValueError):
        return None  # the code that opens the directory reports its error


def _from_directories(partitions: PartitionDirectories, node_id: int, disk: Disk) -> KafkaImport:
    """The topics as their directories alone show them."""
    counts: dict[str, int] = {}
    for topic, _ in partitions:
        counts[topic] = counts.get(topic, 0) + 1
    changes: list[Change] = []
    for topic, count in sorted(counts.items()):
        paths = [partitions.get((topic, index)) for index in range(count)]
        missing = [index for index, path in enumerate(paths) if path is None]
        if missing:
            raise KafkaImportError(
                f"{topic}-{missing[0]} is in none of the data directories; without "
                f"{DIRECTORY_NAME} kwire can't know how many partitions {topic} has"
            )
        image = _topic_image(topic, [path for path in paths if path], node_id, disk)
        if topic in INTERNAL_TOPICS:
            for name, value in (("cleanup.policy", "compact"), ("compression.type", "producer")):
                changes.append(ConfigChanged(ConfigResourceType.TOPIC, topic, name, value))
        changes.append(TopicCreated(image))
    changes.append(ProducerIdsAllocated(_next_producer_id(partitions, disk)))
    changes.append(TakenOver(-1))
    summary = (
        f"took over {len(counts)} topics by their directories; there is no {DIRECTORY_NAME}, "
        "so they have the default configs"
    )
    return KafkaImport(changes, summary)


def _topic_image(topic: str, paths: Sequence[Path], node_id: int, disk: Disk) -> TopicImage:
    topic_id = _topic_id(paths[0], disk)
    if topic_id is None:
        raise KafkaImportError(
            f"{paths[0]} has no partition.metadata, so its topic has no known id"
        )
    images = []
    for path in paths:
        _check_topic_id(path, topic_id, disk)
        epoch = LeaderEpochs.read(path, disk).latest + 1
        images.append(PartitionImage(node_id, epoch, (node_id,), (node_id,)))
    return TopicImage(topic, topic_id, tuple(images), len(images))


def _topic_id(path: Path, disk: Disk) -> bytes | None:
    return _open_reader(path, disk).topic_id


def _open_reader(path: Path, disk: Disk) -> PartitionReader:
    try:
        return PartitionReader(path, disk)
    except (OSError, ValueError) as error:
        raise KafkaImportError(f"cannot take over {path}: {error}") from error


def _next_producer_id(partitions: PartitionDirectories, disk: Disk) -> int:
    """The first id of a block that contains no producer id of these partitions."""
    largest = -1
    for (topic, _), path in partitions.items():
        reader = _open_reader(path, disk)
        try:
            largest = max(largest, reader.largest_producer_id())
            if topic == TRANSACTIONS_TOPIC:
                # A value begins with its version, an int16, and the producer id, an int64.
                values = (record.value for record in reader.records())
                ids = [int.from_bytes(value[2:10], signed=True) for value in values if value]
                largest = max([largest, *ids])
        except (OSError, ValueError, InvalidRecords) as error:
            raise KafkaImportError(f"cannot take over {path}: {error}") from error
    return (largest // PRODUCER_ID_BLOCK + 1) * PRODUCER_ID_BLOCK
