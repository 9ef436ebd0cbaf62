"""The partitions below a path, and the offsets that may be read of each.

The path is a data directory of kwire or Apache Kafka, or one partition's directory. It may belong
to a running broker, or be a copy.

Bounds, in the order in which they are found:

- The log start offset: of the first segment, or of ``log-start-offset-checkpoint`` if larger.
- The high watermark: from ``replication-offset-checkpoint`` beside the partitions' directories. A
  broker writes it every few seconds (``replica.high.watermark.checkpoint.interval.ms``) and when it
  stops, so beside a running broker a read lacks the last seconds. Without that file, as in a copy
  of one partition, and with ``highWatermark=ignore``, it is the end of the last complete batch.
- The last stable offset, for ``isolation=read_committed``: the first offset of the oldest
  transaction that is open at the high watermark. It comes from the newest producer snapshot up to
  the high watermark, and from the batches' headers after that.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kwire.log.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from kwire.log.partition_metadata import read_topic_id
from kwire.log.producer_snapshot import load_snapshot, snapshot_offsets
from kwire.log.read_only_disk import ReadOnlyDisk
from kwire.protocol.types import uuid_to_str
from kwire.record.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from kwire.record.batch_scan import BatchHeader
from kwire.spark.segments.errors import LostRecords, OtherTopic
from kwire.spark.segments.files import list_segments, open_at
from kwire.spark.segments.options import Options
from kwire.spark.settings import WrongSetting

_INTERNAL = {
    "__cluster_metadata",
    "__consumer_offsets",
    "__share_group_state",
    "__transaction_state",
}


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """A partition's directory; ``topic_id`` is empty if the directory doesn't say it."""

    topic: str
    number: int
    directory: Path
    topic_id: str = ""

    def check_id(self, expected: str) -> None:
        """Raise OtherTopic if the directory belongs to another topic than ``expected``."""
        if expected and self.topic_id and expected != self.topic_id:
            raise OtherTopic(
                f"{self.directory} holds another topic now: its id is {self.topic_id}, and what was"
                f" read before has {expected}. The topic {self.topic} was created again; start"
                " with a new checkpoint"
            )


def partition_at(directory: Path) -> Partition | None:
    """The partition in a directory, None if the directory's name isn't a partition's.

    OSError if ``partition.metadata`` can't be read.
    """
    topic, _, number = directory.name.rpartition("-")
    if not topic or not number.isdecimal():
        return None
    try:
        topic_id = read_topic_id(directory, ReadOnlyDisk())
    except ValueError:
        topic_id = None
    return Partition(topic, int(number), directory, uuid_to_str(topic_id) if topic_id else "")


def find_partitions(options: Options, *, may_lack: bool = False) -> list[Partition]:
    """The partitions that the options choose.

    WrongSetting if there are no partitions, or none of a named topic. With ``may_lack``, for a
    stream that has read them before, WrongSetting only if the directory itself is missing.
    """
    path = Path(options.path.removeprefix("file://")).absolute()
    if not path.is_dir():
        raise WrongSetting("path", options.path, "a directory that exists")
    single = partition_at(path) if list_segments(path).names else None
    if single is not None:
        found = [single]
    else:
        found = [
            part for child in path.iterdir() if child.is_dir() and (part := partition_at(child))
        ]
    found = sorted(part for part in found if _is_chosen(part, options))
    if may_lack:
        return found
    missing = set(options.topics) - {part.topic for part in found}
    if missing:
        raise WrongSetting("topics", ",".join(sorted(missing)), f"topics below {path}")
    if not found:
        what = "a data directory, or a directory named topic-partition with segments"
        raise WrongSetting("path", options.path, f"{what}; none that the options choose is there")
    return found


def _is_chosen(partition: Partition, options: Options) -> bool:
    if options.partitions is not None and partition.number not in options.partitions:
        return False
    if options.topics:
        return partition.topic in options.topics
    if options.pattern:
        return re.fullmatch(options.pattern, partition.topic) is not None
    is_named = Path(options.path).name == partition.directory.name
    return is_named or partition.topic not in _INTERNAL


def log_start_offset(partition: Partition) -> int:
    """The first offset that readers see."""
    bases = list_segments(partition.directory).bases
    found = read_offsets(partition.directory.parent / LOG_START_OFFSETS, ReadOnlyDisk())
    return max(bases[0] if bases else 0, found.get((partition.topic, partition.number), 0))


def headers_from(partition: Partition, offset: int) -> Iterator[BatchHeader]:
    """The headers of the batches from the one that has ``offset`` on, to the end of the log."""
    while True:
        segment = open_at(partition.directory, offset)
        if segment is None:
            return
        seen = offset
        with segment:
            for header in segment.headers(segment.position_before(offset)):
                if header.last_offset >= seen:
                    yield header
                    seen = header.last_offset + 1
        following = [
            base for base in list_segments(partition.directory).bases if base > segment.base
        ]
        if not following:
            return
        offset = max(seen, following[0])


def log_end_offset(partition: Partition) -> int:
    """The offset after the last complete batch."""
    bases = list_segments(partition.directory).bases
    if not bases:
        return 0
    end = bases[-1]
    segment = open_at(partition.directory, end)
    if segment is None:
        return end
    with segment:
        entries = segment.offset_entries()
        start = segment.position_before(entries[-1].offset) if entries else 0
        for header in segment.headers(start):
            end = header.last_offset + 1
    return end


def high_watermarks(partitions: list[Partition], *, ignored: bool) -> dict[Partition, int]:
    """The high watermark of each partition.

    A partition that the checkpoint doesn't have counts as empty: either it is so new that none of
    its records is known to be replicated, or it was copied here from elsewhere.
    """
    found = _known(partitions, ignored=ignored)
    return {part: log_start_offset(part) if end is None else end for part, end in found.items()}


def check_known(partitions: list[Partition], *, ignored: bool) -> None:
    """Raise LostRecords for a partition that has records but no high watermark in a checkpoint.

    A batch read would silently return none of its records.
    """
    for part, known in _known(partitions, ignored=ignored).items():
        if known is None and log_end_offset(part) > log_start_offset(part):
            raise LostRecords(
                f"{part.directory} has records, but {HIGH_WATERMARKS} beside it doesn't say up to"
                " which offset they are replicated; highWatermark=ignore reads to the log's end"
            )


def _known(partitions: list[Partition], *, ignored: bool) -> dict[Partition, int | None]:
    """The high watermark of each partition, None if a checkpoint doesn't have the partition."""
    marks = {}
    for directory in {part.directory.parent for part in partitions}:
        path = directory / HIGH_WATERMARKS
        if path.exists() and not ignored:
            marks[directory] = read_offsets(path, ReadOnlyDisk())
    return {
        part: marks[part.directory.parent].get((part.topic, part.number))
        if part.directory.parent in marks
        else log_end_offset(part)
        for part in partitions
    }


@dataclass(slots=True)
class StableOffset:
    """Follows a partition's transactions by the headers of its batches, up to an offset.

    ``scanned`` is the offset up to which headers were read, ``opened`` the first offset of each
    producer's open transaction.
    """

    scanned: int = -1
    opened: dict[int, int] = field(default_factory=dict)

    def at(self, partition: Partition, end: int) -> int:
        """The last stable offset if the log ended at ``end``, which never goes back."""
        if self.scanned < 0:
            self._start(partition, end)
        if self.scanned < end:
            for header in headers_from(partition, self.scanned):
                if header.base_offset >= end:
                    break
                self._record_transaction(header)
            self.scanned = end
        return min([end, *self.opened.values()])

    def _start(self, partition: Partition, end: int) -> None:
        disk = ReadOnlyDisk()
        self.scanned = log_start_offset(partition)
        for offset in reversed(snapshot_offsets(partition.directory, disk)):
            states = load_snapshot(partition.directory, offset, disk) if offset <= end else None
            if states is not None:
                self.scanned = max(offset, self.scanned)
                self.opened = {
                    producer_id: entry.current_txn_first_offset
                    for producer_id, entry in states.producers.items()
                    if entry.current_txn_first_offset >= 0
                }
                return

    def _record_transaction(self, header: BatchHeader) -> None:
        if header.attributes & CONTROL_MASK:
            self.opened.pop(header.producer_id, None)
        elif header.attributes & TRANSACTIONAL_MASK:
            self.opened.setdefault(header.producer_id, header.base_offset)
