"""The snapshot of a partition's producers on the disk, in Kafka's format, for a quick start.

Format of ``.snapshot`` (the state before the offset in its name)::

    version int16 (1) | crc uint32 of what follows | count int32 |
    (producer_id int64 | epoch int16 | last_sequence int32 | last_offset int64 |
     offset_delta int32 | timestamp int64 | coordinator_epoch int32 |
     current_txn_first_offset int64)…

A snapshot may hold more producers than the limit, because another broker wrote it or the limit has
changed. Then kwire keeps those with an open transaction and those that wrote last.

Source: ProducerStateManager of Kafka.
"""

import logging
from collections.abc import Iterator
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import TypeAlias

from kwire.log.disk import Disk
from kwire.log.producer_entry import NO_TRANSACTION, ProducerEntry
from kwire.log.producer_state import NO_LIMIT, ProducerStates
from kwire.record.batch import NO_SEQUENCE
from kwire.record.checksum import crc32c

log = logging.getLogger(__name__)

SNAPSHOT_SUFFIX = ".snapshot"

_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6

_Row: TypeAlias = tuple[int, int, int, int, int, int, int, int]
_LAST_OFFSET = 3
_TXN_FIRST_OFFSET = 7


def to_snapshot(states: ProducerStates) -> bytes:
    """The state as the content of a ``.snapshot`` file."""
    # A transaction without its producer would be open for ever after the next start.
    assert states.open_transactions.keys() <= states.producers.keys(), states.open_transactions
    body = bytearray(len(states.producers).to_bytes(4, "big"))
    for entry in states.producers.values():
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + bytes(body)


def from_snapshot(data: bytes, limit: int = NO_LIMIT) -> ProducerStates:
    """The state from the content of a ``.snapshot`` file, with at most ``limit`` idle producers.

    Raises ValueError if the content is broken.
    """
    if len(data) < _HEADER.size:
        raise ValueError("too short")
    version, crc, count = _HEADER.unpack_from(data)
    rows = memoryview(data)[_HEADER.size :]
    if version != _VERSION or crc != crc32c(memoryview(data)[_CRC_FROM:]):
        raise ValueError("wrong version or checksum")
    if len(rows) != count * _ENTRY.size:
        raise ValueError("wrong count")
    states = ProducerStates(limit)
    # A row without a batch is a producer that has only a marker left. The marker fences older
    # epochs. The file doesn't give the marker's offset, so the producer counts as the newest.
    newest = max((row[_LAST_OFFSET] for row in _ENTRY.iter_unpack(rows)), default=-1)
    for row in _latest(rows, count, limit):
        _restore(states, row, newest)
    opened = sorted(states.open_transactions.items(), key=itemgetter(1))
    states.open_transactions = dict(opened)
    return states


def _latest(rows: memoryview, count: int, limit: int) -> Iterator[_Row]:
    """The rows to keep: all with an open transaction, and at most ``limit`` others."""
    if count <= limit:
        yield from _ENTRY.iter_unpack(rows)
        return
    yield from (row for row in _ENTRY.iter_unpack(rows) if row[_TXN_FIRST_OFFSET] >= 0)
    idle = (row for row in _ENTRY.iter_unpack(rows) if row[_TXN_FIRST_OFFSET] < 0)
    yield from nlargest(limit, idle, key=itemgetter(_LAST_OFFSET))


def _restore(states: ProducerStates, row: _Row, newest: int) -> None:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, *rest = row
    entry = ProducerEntry(producer_id, epoch)
    entry.timestamp = timestamp
    entry.coordinator_epoch, entry.current_txn_first_offset = rest
    if last_offset >= 0 and last_sequence != NO_SEQUENCE:
        entry.restore(last_sequence, last_offset, offset_delta, timestamp)
    else:
        entry.written_offset = newest
    states.producers[producer_id] = entry
    if entry.current_txn_first_offset != NO_TRANSACTION:
        states.open_transactions[producer_id] = entry.current_txn_first_offset


def snapshot_offsets(directory: Path, disk: Disk) -> list[int]:
    """The offsets of the snapshots in a partition's directory, ascending."""
    stems = (
        name.removesuffix(SNAPSHOT_SUFFIX)
        for name in disk.names(directory)
        if name.endswith(SNAPSHOT_SUFFIX)
    )
    return sorted(int(stem) for stem in stems if stem.isdigit())


def snapshot_path(directory: Path, offset: int) -> Path:
    """The path of the snapshot of the state before ``offset``."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def load_snapshot(
    directory: Path, offset: int, disk: Disk, limit: int = NO_LIMIT
) -> ProducerStates | None:
    """The state before ``offset``; None, with a warning, if the file is broken."""
    path = snapshot_path(directory, offset)
    try:
        states = from_snapshot(disk.read_bytes(path) or b"", limit)
        states.snapshot_offset = offset
        return states
    except (OSError, ValueError) as error:
        log.warning("%s can't be used and is rebuilt: %s", path, error)
        return None


def write_snapshot(states: ProducerStates, directory: Path, offset: int, disk: Disk) -> None:
    """Write the state before ``offset``, unless a snapshot of it exists; OSError.

    The file isn't synced, because an append that rolls a segment must not wait for the disk. The
    checksum reveals a broken file.
    """
    if offset > states.snapshot_offset:
        path = snapshot_path(directory, offset)
        disk.write_atomically(path, to_snapshot(states), durable=False)
        states.snapshot_offset = offset
