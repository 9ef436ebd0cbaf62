"""Removing damaged batches from a partition's log, so that the other batches can be read.

Rules:

- A batch is sound if it is complete, has this format and the right checksum, and its offsets follow
  those of the batch before. All bytes outside sound batches are removed, wherever they lie.
- A segment with damage is copied before it is changed. The copy lies in the data directory, beside
  the partition's directory, where no broker reads it.
- The next start reads the whole partition, as after a crash, and rebuilds its indexes and the state
  of its producers. A crash in between leaves either the old segment or the new one.
"""

import mmap
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from kwire.log.checkpoints import RECOVERY_POINTS, write_offsets
from kwire.log.data_directory import DataDirectory
from kwire.log.disk import Disk
from kwire.record.batch import HEADER_BYTES, MAGIC, RecordBatch

_LOG = ".log"
_NEW = ".log.tmp"
"""The next start removes a file of this name that a crash has left, as in Kafka."""

_BASE_OFFSET = Struct(">q")
_LENGTH = Struct(">8xi")
_MAGIC_AT = 16
_LENGTH_FROM = 12
_MAX_OFFSET_GAP = 1 << 31
"""The largest distance between the offsets of a segment."""


class Damage(NamedTuple):
    """Bytes of a segment outside sound batches, and the offsets that they may have held."""

    segment: Path
    position: int
    size_bytes: int
    first_offset: int
    next_offset: int | None
    """The base offset of the next sound batch, None if the segment has none."""

    def __str__(self) -> str:
        until = "on" if self.next_offset is None else f"to {self.next_offset - 1}"
        return (
            f"{self.segment}: {self.size_bytes} bytes at position {self.position} left out, "
            f"with the records from offset {self.first_offset} {until}"
        )


class Repair(NamedTuple):
    """The damage that was left out, and the copies of the damaged segments."""

    damages: list[Damage]
    copies: list[Path]


def repair_partition(directory: Path, disk: Disk) -> Repair:
    """Remove everything from every segment that isn't part of a sound batch.

    Raises LogDirectoryError if a broker is using the data directory, OSError, and ValueError for a
    directory that isn't a partition's.
    """
    topic, _, number = directory.name.rpartition("-")
    if not topic or not number.isdecimal() or not directory.is_dir():
        raise ValueError(f"{directory} is not the directory of a partition: topic-partition")
    data_directory = DataDirectory(directory.parent, disk)
    try:
        if data_directory.health.failure is not None:
            raise ValueError(f"{directory.parent}: {data_directory.health.failure}")
        repair = Repair([], [])
        for path in sorted(directory.glob(f"*{_LOG}")):
            damages = find_damage(path)
            if damages:
                _forget_recovery_point(data_directory, (topic, int(number)), disk)
                repair.copies.append(_remove_damage(path, damages, disk))
                repair.damages.extend(damages)
        return repair
    finally:
        data_directory.close(clean=False)


def find_damage(path: Path) -> list[Damage]:
    """The damage in a segment; OSError, and ValueError if the file isn't a segment."""
    least = int(path.name.removesuffix(_LOG))
    size_bytes = path.stat().st_size
    if not size_bytes:
        return []
    damages: list[Damage] = []
    end = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for position, batch_bytes, base_offset, last_offset in _sound_batches(data, least):
            if position > end:
                damages.append(Damage(path, end, position - end, least, base_offset))
            end, least = position + batch_bytes, last_offset + 1
    if end < size_bytes:
        damages.append(Damage(path, end, size_bytes - end, least, None))
    return damages


def _sound_batches(data: mmap.mmap, least: int) -> Iterator[tuple[int, int, int, int]]:
    """Position, size, first and last offset of every sound batch from offset ``least`` on."""
    position = 0
    while 0 <= position <= len(data) - HEADER_BYTES:
        batch = _batch_at(data, position, least)
        if batch is None or _is_overtaken(data, position, batch, least):
            magic_at = data.find(bytes([MAGIC]), position + 1 + _MAGIC_AT)
            position = magic_at - _MAGIC_AT if magic_at >= 0 else len(data)
            continue
        yield position, batch.size_bytes, batch.base_offset, batch.last_offset
        position += batch.size_bytes
        least = batch.last_offset + 1


def _batch_at(data: mmap.mmap, position: int, least: int) -> RecordBatch | None:
    """The sound batch at a position, None if there is none."""
    [base_offset] = _BASE_OFFSET.unpack_from(data, position)
    [length] = _LENGTH.unpack_from(data, position)
    size_bytes = length + _LENGTH_FROM
    if (
        not HEADER_BYTES <= size_bytes <= len(data) - position
        or data[position + _MAGIC_AT] != MAGIC
    ):
        return None
    if not least <= base_offset < least + _MAX_OFFSET_GAP:
        return None
    batch = RecordBatch(data[position : position + size_bytes])
    return batch if batch.last_offset >= base_offset and batch.crc_is_right() else None


def _is_overtaken(data: mmap.mmap, position: int, batch: RecordBatch, least: int) -> bool:
    """Whether the next batch has a lower offset, which shows that this batch's offset is wrong.

    The checksum of a batch doesn't cover its offset.
    """
    after = position + batch.size_bytes
    if after > len(data) - HEADER_BYTES:
        return False
    [next_offset] = _BASE_OFFSET.unpack_from(data, after)
    return bool(least <= next_offset <= batch.last_offset)


def _forget_recovery_point(
    data_directory: DataDirectory, partition: tuple[str, int], disk: Disk
) -> None:
    """Remove the recovery point, so that the next start reads the whole partition."""
    points = {key: at for key, at in data_directory.recovery_points.items() if key != partition}
    write_offsets(data_directory.path / RECOVERY_POINTS, points, disk)
    data_directory.remove_clean_mark()


def _remove_damage(path: Path, damages: list[Damage], disk: Disk) -> Path:
    """Replace a segment by one without the damage; returns the path of the unchanged copy."""
    copy = _free_name(path.parent.with_name(f"{path.parent.name}.{path.name}.damaged"))
    shutil.copyfile(path, copy)
    new = path.with_name(path.name.removesuffix(_LOG) + _NEW)
    with path.open("rb") as old, new.open("wb") as kept:
        for start, end in _kept(damages, path.stat().st_size):
            old.seek(start)
            while start < end:
                chunk = old.read(min(end - start, 1 << 20))
                kept.write(chunk)
                start += len(chunk)
        kept.flush()
        disk.sync(kept.fileno())
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink(missing_ok=True)
    disk.rename(new, path)
    disk.sync_directory(path.parent)
    return copy


def _kept(damages: list[Damage], size_bytes: int) -> Iterator[tuple[int, int]]:
    """The ranges of a segment that are kept, as (start, end) positions; some are empty."""
    start = 0
    for damage in damages:
        yield start, damage.position
        start = damage.position + damage.size_bytes
    yield start, size_bytes


def _free_name(path: Path) -> Path:
    """The path, or the path with a number appended if a file of that name exists."""
    free, number = path, 1
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free
