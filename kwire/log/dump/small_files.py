"""The small files beside segments: producer snapshots, checkpoints, ids of topics and directories.

Rules: a file whose content doesn't match its name raises DumpError. Kafka's tool skips checkpoints,
``partition.metadata`` and ``meta.properties``; kwire prints them.

Source: ProducerStateManager.readSnapshot, CheckpointFile, PartitionMetadataFile of Kafka.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct

from kwire.config.properties import parse_properties
from kwire.log.disk import Disk
from kwire.log.dump.lines import DumpError, Line, optional_long
from kwire.record.batch import MAX_SEQUENCE
from kwire.record.checksum import crc32c

CHECKPOINTS: dict[str, Sequence[str]] = {
    "leader-epoch-checkpoint": ("epoch", "startOffset"),
    "recovery-point-offset-checkpoint": ("topic", "partition", "offset"),
    "log-start-offset-checkpoint": ("topic", "partition", "offset"),
    "replication-offset-checkpoint": ("topic", "partition", "offset"),
    "cleaner-offset-checkpoint": ("topic", "partition", "offset"),
}
"""The columns of each checkpoint."""

_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_CRC_FROM = 6


def dump_snapshot(path: Path, disk: Disk) -> Iterator[Line]:
    """The producers of a ``.snapshot``; DumpError."""
    data = disk.read_bytes(path)
    if data is None:
        raise DumpError(f"{path} does not exist")
    if len(data) < _SNAPSHOT_HEADER.size:
        raise DumpError(f"{path} has {len(data)} bytes, too few for a producer snapshot")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    rows = data[_SNAPSHOT_HEADER.size :]
    if version != _SNAPSHOT_VERSION:
        raise DumpError(f"{path} has the unknown version {version}")
    if crc != crc32c(data[_CRC_FROM:]):
        raise DumpError(f"{path} fails its checksum {crc}")
    if len(rows) != count * _SNAPSHOT_ENTRY.size:
        raise DumpError(f"{path} does not have the {count} producers that its header says")
    for row in _SNAPSHOT_ENTRY.iter_unpack(rows):
        yield _producer_line(*row)


def _producer_line(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> Line:
    transaction = current_txn_first_offset if current_txn_first_offset >= 0 else None
    fields = {
        "producerId": producer_id,
        "producerEpoch": producer_epoch,
        "coordinatorEpoch": coordinator_epoch,
        "currentTxnFirstOffset": transaction,
        "lastTimestamp": timestamp,
    }
    if last_offset >= 0:
        fields["firstSequence"] = (last_sequence - offset_delta) & MAX_SEQUENCE
        fields["lastSequence"] = last_sequence
        fields["lastOffset"] = last_offset
        fields["offsetDelta"] = offset_delta
        fields["timestamp"] = timestamp
    shown = {**fields, "currentTxnFirstOffset": optional_long(transaction)}
    text = " ".join(f"{name}: {value}" for name, value in shown.items())
    return Line(text, {"type": "producer", **fields})


def dump_checkpoint(path: Path, disk: Disk) -> Iterator[Line]:
    """The entries of a checkpoint; DumpError."""
    columns = CHECKPOINTS[path.name]
    lines = _text(path, disk).splitlines()
    if not lines or lines[0] != "0":
        raise DumpError(f"{path} does not begin with version 0")
    if len(lines) < 2 or lines[1] != str(len(lines) - 2):
        raise DumpError(f"the second line of {path} is not the number of entries that follow")
    for line in lines[2:]:
        values = line.split()
        numbers = values[1:] if columns[0] == "topic" else values
        if len(values) != len(columns) or not all(map(_is_number, numbers)):
            raise DumpError(f"{path} has an invalid entry: {line!r}")
        fields = {
            name: int(value) if name != "topic" else value
            for name, value in zip(columns, values, strict=True)
        }
        text = " ".join(f"{name}: {value}" for name, value in fields.items())
        yield Line(text, {"type": "checkpointEntry", **fields})


def dump_properties(path: Path, disk: Disk) -> Iterator[Line]:
    """The lines of ``partition.metadata`` or ``meta.properties``; DumpError."""
    text = _text(path, disk)
    if path.name == "partition.metadata":
        found = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    else:
        found = parse_properties(text)
    if "version" not in found:
        raise DumpError(f"{path} has no version")
    line = " ".join(f"{name}: {value}" for name, value in found.items())
    yield Line(line, {"type": "properties", **found})


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _text(path: Path, disk: Disk) -> str:
    try:
        text = disk.read_text(path)
    except UnicodeDecodeError as error:
        raise DumpError(f"{path} is not text: {error}") from error
    if text is None:
        raise DumpError(f"{path} does not exist")
    return text
