"""What a partition knows of the producers that write to it: epochs, sequences, transactions.

Rules (KIP-98, KIP-360):

- Five batches of each producer are kept. One sent again is answered with its offset, not appended.
- Otherwise a batch must go on where the last one ended (sequences wrap at 2**31 - 1), or start at 0
  in a new epoch. An unknown producer may start anywhere, as in Kafka; one of which only a marker is
  known starts at 0.
- An epoch older than the producer's is fenced.
- A transaction is open from its first batch to its marker; the oldest open one bounds what
  read_committed consumers see.

Format of ``.snapshot`` (the state before the offset in its name)::

    version int16 (1) | crc uint32 of what follows | count int32 |
    (producer_id int64 | epoch int16 | last_sequence int32 | last_offset int64 |
     offset_delta int32 | timestamp int64 | coordinator_epoch int32 |
     current_txn_first_offset int64)…

Source: ProducerStateManager, ProducerAppendInfo of Kafka.
"""

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.log.disk import Disk
from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import MAX_SEQUENCE, NO_SEQUENCE, RecordBatch
from kwire.record.checksum import crc32c
from kwire.record.control import ControlType, control_type, coordinator_epoch

log = logging.getLogger(__name__)

BATCHES_KEPT = 5
AWAITED_KEPT = 1000
"""Producers of a partition whose first batch may come again; the oldest are forgotten."""

SNAPSHOT_SUFFIX = ".snapshot"

_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_FROM = 6
_NO_TRANSACTION = -1


class BatchInfo(NamedTuple):
    """One batch of a producer, as far as a repetition of it has to be recognised."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer: its epoch, its last batches, its open transaction (or -1)."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "producer_epoch",
        "producer_id",
        "timestamp",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.batches: deque[BatchInfo] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = -1
        self.current_txn_first_offset = _NO_TRANSACTION
        self.timestamp = -1

    def note(self, batch: RecordBatch) -> None:
        """A batch of records was appended, its offsets assigned."""
        delta, timestamp = batch.last_offset_delta, batch.max_timestamp
        sequences = batch.base_sequence, batch.last_sequence
        self.batches.append(BatchInfo(*sequences, batch.base_offset + delta, delta, timestamp))
        self.timestamp = timestamp

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 where the epoch has none yet."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """The producers of one partition; ``snapshot_offset`` is that of the newest snapshot.

    ``open_transactions`` has the first offset of each, by producer id, in ascending order.
    """

    def __init__(self) -> None:
        self.snapshot_offset = 0
        self.producers: dict[int, ProducerEntry] = {}
        self.open_transactions: dict[int, int] = {}
        self._awaited: dict[int, tuple[int, int]] = {}

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest open transaction, None where none is open."""
        # They were opened in the order of their offsets, so the first one is the oldest.
        return next(iter(self.open_transactions.values()), None)

    def check(self, batch: RecordBatch) -> BatchInfo | None:
        """Whether a client's batch may be appended; the batch it repeats, None for a new one.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_TXN_STATE for a batch outside of the transaction its producer has open.
        """
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            return None
        if batch.producer_epoch < entry.producer_epoch:
            raise _old_epoch(entry, batch.producer_epoch)
        if batch.producer_epoch == entry.producer_epoch:
            repeated = _repeated(entry, batch)
            if repeated is not None:
                return repeated
        self._check_sequence(entry, batch)
        if entry.current_txn_first_offset != _NO_TRANSACTION and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {batch.producer_id} has a transaction open and writes outside of it.",
            )
        return None

    def goes_on(self, batch: RecordBatch) -> ProducerEntry | None:
        """The producer of a batch that goes on in its epoch, outside of transactions: a fast path
        of ``check`` and ``update``, the slow twins, which let it pass and do what ``note`` does.
        """
        entry = self.producers.get(batch.producer_id)
        if (
            entry is None
            or entry.producer_epoch != batch.producer_epoch
            or entry.current_txn_first_offset != _NO_TRANSACTION
            or batch.base_sequence != (entry.last_sequence + 1) & MAX_SEQUENCE
            or _repeated(entry, batch) is not None
        ):
            return None
        return entry

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Whether a coordinator may write for a producer; KafkaError (INVALID_PRODUCER_EPOCH)."""
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise _old_epoch(entry, producer_epoch)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, version: int
    ) -> None:
        """Whether a marker may be written that ends a transaction of this ``version``.

        From version 2 on its epoch is a new one, unless the marker is there already (KIP-890,
        KIP-1228). Raises KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        is_open = entry.current_txn_first_offset != _NO_TRANSACTION
        is_current = producer_epoch == entry.producer_epoch
        if producer_epoch < entry.producer_epoch or (version >= 2 and is_current and is_open):
            raise _old_epoch(entry, producer_epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"A marker of coordinator epoch {coordinator_epoch} for producer {producer_id}, "
                f"which has one of epoch {entry.coordinator_epoch}.",
            )

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has a transaction open here in this epoch."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset != _NO_TRANSACTION
            and entry.producer_epoch == producer_epoch
        )

    def expect_first(self, producer_id: int, producer_epoch: int, first_sequence: int) -> None:
        """A batch has come that may be the first of a transaction here (KIP-890).

        Of the batches that a producer has under way the first may be refused for now: those after
        it wait until it has come again.
        """
        epoch, lowest = self._awaited.get(producer_id, (-1, 0))
        if producer_epoch > epoch or (producer_epoch == epoch and first_sequence < lowest):
            self._awaited[producer_id] = producer_epoch, first_sequence
            if len(self._awaited) > AWAITED_KEPT:
                del self._awaited[next(iter(self._awaited))]

    def check_first(
        self, producer_id: int, producer_epoch: int, first_sequence: int, *, bumps: bool
    ) -> None:
        """Whether a batch that was expected may be the first of a transaction here.

        Where every transaction has an epoch of its own (``bumps``) a producer that isn't known
        begins at 0. Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        self.check_epoch(producer_id, producer_epoch)
        entry = self.producers.get(producer_id)
        epoch, lowest = self._awaited.get(producer_id, (-1, 0))
        is_after = producer_epoch == epoch and first_sequence > lowest
        is_unknown = entry is None or not entry.batches
        if is_after or (bumps and is_unknown and first_sequence > 0):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id}: {first_sequence} "
                "(incoming), but its transaction has not begun here.",
            )

    def _check_sequence(self, entry: ProducerEntry, batch: RecordBatch) -> None:
        first = batch.base_sequence
        if batch.producer_epoch != entry.producer_epoch:
            expected = 0 if entry.producer_epoch != -1 else first
        else:
            expected = (entry.last_sequence + 1) & MAX_SEQUENCE
        if first != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id}: "
                f"{first} (incoming), {expected} (expected).",
            )

    def update(self, batch: RecordBatch) -> AbortedTransaction | None:
        """Note a batch that was appended, its offsets assigned; an aborted transaction it ends.

        A control batch that compaction has emptied ends nothing that is still there.
        """
        if batch.is_control and not batch.records_count:
            return None
        entry = self.producers.get(batch.producer_id)
        if entry is None:
            entry = ProducerEntry(batch.producer_id, batch.producer_epoch)
            self.producers[batch.producer_id] = entry
        if batch.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = batch.producer_epoch
            entry.batches.clear()
        entry.timestamp = batch.max_timestamp
        if batch.is_control:
            return self._end_transaction(entry, batch)
        entry.note(batch)
        if batch.is_transactional and entry.current_txn_first_offset == _NO_TRANSACTION:
            entry.current_txn_first_offset = batch.base_offset
            self.open_transactions[batch.producer_id] = batch.base_offset
            self._awaited.pop(batch.producer_id, None)
        return None

    def _end_transaction(
        self, entry: ProducerEntry, batch: RecordBatch
    ) -> AbortedTransaction | None:
        kind = control_type(batch)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        entry.coordinator_epoch = coordinator_epoch(batch)
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = _NO_TRANSACTION
        self.open_transactions.pop(batch.producer_id, None)
        if first_offset == _NO_TRANSACTION or kind == ControlType.COMMIT:
            return None
        unstable = self.first_unstable_offset
        stable = batch.next_offset if unstable is None else unstable
        return AbortedTransaction(batch.producer_id, first_offset, batch.base_offset, stable)

    def expire(self, age_ms: Callable[[int], int], expiration_ms: int) -> None:
        """Forget producers that wrote nothing for ``expiration_ms`` and have nothing open."""
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == _NO_TRANSACTION
            and age_ms(entry.timestamp) >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]

    def to_snapshot(self) -> bytes:
        """The state in the format of a ``.snapshot`` file."""
        body = bytearray(len(self.producers).to_bytes(4, "big"))
        for entry in self.producers.values():
            last = entry.batches[-1] if entry.batches else BatchInfo(-1, -1, -1, 0, entry.timestamp)
            body += _ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        return _VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + bytes(body)

    @classmethod
    def from_snapshot(cls, data: bytes) -> "ProducerStates":
        """The state that a ``.snapshot`` file holds; ValueError for one that is broken."""
        if len(data) < _HEADER.size:
            raise ValueError("too short")
        version, crc, count = _HEADER.unpack_from(data)
        rows = data[_HEADER.size :]
        if version != _VERSION or crc != crc32c(data[_CRC_FROM:]):
            raise ValueError("wrong version or checksum")
        if len(rows) != count * _ENTRY.size:
            raise ValueError("wrong count")
        states = cls()
        for row in _ENTRY.iter_unpack(rows):
            states._restore(*row)
        opened = sorted(states.open_transactions.items(), key=lambda item: item[1])
        states.open_transactions = dict(opened)
        return states

    def _restore(
        self,
        producer_id: int,
        producer_epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        coordinator_epoch: int,
        current_txn_first_offset: int,
    ) -> None:
        entry = ProducerEntry(producer_id, producer_epoch)
        entry.timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.current_txn_first_offset = current_txn_first_offset
        if last_offset >= 0 and last_sequence != NO_SEQUENCE:
            first_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE
            entry.batches.append(
                BatchInfo(first_sequence, last_sequence, last_offset, offset_delta, timestamp)
            )
        self.producers[producer_id] = entry
        if current_txn_first_offset != _NO_TRANSACTION:
            self.open_transactions[producer_id] = current_txn_first_offset


def _old_epoch(entry: ProducerEntry, producer_epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch {producer_epoch} of producer {entry.producer_id} is older than the current epoch "
        f"{entry.producer_epoch}, or its transactions are over.",
    )


def _repeated(entry: ProducerEntry, batch: RecordBatch) -> BatchInfo | None:
    """The kept batch that has the same sequences."""
    for kept in entry.batches:
        if kept.first_sequence == batch.base_sequence and kept.last_sequence == batch.last_sequence:
            return kept
    return None


def snapshot_offsets(directory: Path, disk: Disk) -> list[int]:
    """The offsets of the snapshots in a partition's directory, ascending."""
    stems = (
        name.removesuffix(SNAPSHOT_SUFFIX)
        for name in disk.names(directory)
        if name.endswith(SNAPSHOT_SUFFIX)
    )
    return sorted(int(stem) for stem in stems if stem.isdigit())


def snapshot_path(directory: Path, offset: int) -> Path:
    """The file of the snapshot of the state before ``offset``."""
    return directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def load_snapshot(directory: Path, offset: int, disk: Disk) -> ProducerStates | None:
    """The state before ``offset``; None, with a warning, where the file is broken."""
    path = snapshot_path(directory, offset)
    try:
        states = ProducerStates.from_snapshot(disk.read_bytes(path) or b"")
        states.snapshot_offset = offset
        return states
    except (OSError, ValueError) as error:
        log.warning("%s can't be used and is made again: %s", path, error)
        return None


def write_snapshot(states: ProducerStates, directory: Path, offset: int, disk: Disk) -> None:
    """Write the state before ``offset``, unless there is such a snapshot; OSError.

    An append that rolls a segment must not wait for the disk; the checksum tells a broken file.
    """
    if offset > states.snapshot_offset:
        path = snapshot_path(directory, offset)
        disk.write_atomically(path, states.to_snapshot(), durable=False)
        states.snapshot_offset = offset
