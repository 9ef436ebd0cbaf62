"""What the tests of the log share: batches, logs opened and read back, and a faulty disk."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.data_directory import DataDirectory
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.open_files import OpenFiles
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import open_log
from kwire.log.validation import AppendOrigin
from kwire.record.batch import Buffer, RecordBatch, complete_batches
from kwire.record.control import ControlType, end_transaction_marker
from kwire.record.records import BatchBuilder, ProducerState, Record, records

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


class FaultyDisk(Disk):
    """A disk whose writing calls fail from the ``fail_at``-th one on, ``failures`` times.

    A write that fails has written half of its bytes, as on a disk that gets full.
    """

    def __init__(self) -> None:
        self.fail_at = -1
        self.failures = 1
        self.calls = 0
        self.fails_sync = False

    def _count(self) -> bool:
        self.calls += 1
        return self.fail_at >= 0 and self.fail_at <= self.calls - 1 < self.fail_at + self.failures

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write, or write half and fail."""
        if self._count():
            super().pwrite_all(fd, memoryview(data)[: len(data) // 2], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().pwrite_all(fd, data, position)

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Truncate, or fail."""
        if self._count():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(fd, size_bytes)

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open, or fail where a file would be made."""
        if create and self._count():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, create=create)

    def rename(self, old: Path, new: Path) -> None:
        """Rename, or fail."""
        if self._count():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(old, new)

    def sync(self, fd: int) -> None:
        """Count instead of waiting, or fail."""
        if self.fails_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync_directory(self, path: Path) -> None:
        """Nothing: the tests end with the process, not with the machine."""


class LogTools:
    """Opens logs in one directory and reads them back as plain lists."""

    now_ms = NOW_MS
    topic_id = TOPIC_ID

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = FaultyDisk()
        self.directory = root / "t-0"

    def open(self, *, clean: bool = True, recovery_point: int = 0, **settings: Any) -> PartitionLog:
        """Open ``t-0`` with these fields of LogConfig, ``log_start_offset`` apart."""
        log_start_offset = settings.pop("log_start_offset", 0)
        return open_log(
            self.directory,
            "t",
            0,
            LogConfig(**settings),
            disk=self.disk,
            now_ms=NOW_MS,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            topic_id=TOPIC_ID,
        )

    @staticmethod
    def batch(
        *values: bytes,
        timestamp: int = NOW_MS,
        compression: int = 0,
        producer: tuple[int, int, int] | None = None,
        transactional: bool = False,
        keys: tuple[bytes | None, ...] | None = None,
    ) -> bytearray:
        """A batch of records with these values, ``producer`` being (id, epoch, sequence)."""
        builder = BatchBuilder()
        for place, value in enumerate(values):
            builder.add(timestamp, keys[place] if keys else b"k", value)
        return builder.build(
            compression=compression,
            producer=ProducerState(*producer) if producer else ProducerState(),
            transactional=transactional,
        )

    @staticmethod
    def batch_of(
        rows: list[tuple[int, bytes | None, bytes | None]],
        compression: int,
        producer: tuple[int, int, int] | None,
        transactional: bool,
    ) -> bytearray:
        """A batch of records given as (timestamp, key, value)."""
        builder = BatchBuilder()
        for row in rows:
            builder.add(*row)
        return builder.build(
            compression=compression,
            producer=ProducerState(*producer) if producer else ProducerState(),
            transactional=transactional,
        )

    @staticmethod
    def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 3) -> bytes:
        """The batch that ends a transaction."""
        return bytes(
            end_transaction_marker(
                ControlType.COMMIT if commit else ControlType.ABORT,
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp=NOW_MS,
            )
        )

    def append(self, log: PartitionLog, *values: bytes, **options: Any) -> int:
        """Append one batch as a client; its first offset."""
        info = log.append(self.batch(*values, **options), leader_epoch=0, now_ms=NOW_MS)
        return info.first_offset

    @staticmethod
    def append_marker(log: PartitionLog, marker: bytes) -> None:
        """Append as a coordinator does."""
        log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    @staticmethod
    def fetch(
        log: PartitionLog, offset: int, max_bytes: int = 1 << 20, end_offset: int | None = None
    ) -> bytes:
        """What a read gives, as bytes; at least one batch."""
        end = log.log_end_offset if end_offset is None else end_offset
        found = log.read(offset, max_bytes, end_offset=end, min_one_batch=True)
        return os.pread(found.fd, found.size_bytes, found.position) if found else b""

    def batches(self, log: PartitionLog) -> list[RecordBatch]:
        """Every batch from the log start offset on, by reading as a consumer does."""
        found: list[RecordBatch] = []
        offset = log.log_start_offset
        while data := self.fetch(log, offset):
            some = list(complete_batches(data))
            assert some[0].last_offset >= offset
            for batch in some:
                batch.verify_crc()
            found += some
            offset = some[-1].next_offset
        return found

    def records(self, log: PartitionLog) -> list[Record]:
        """Every record from the log start offset on."""
        return [
            record
            for batch in self.batches(log)
            for record in records(batch)
            if record.offset >= log.log_start_offset
        ]

    def values(self, log: PartitionLog) -> list[tuple[int, bytes | None]]:
        """Offset and value of every record."""
        return [(record.offset, record.value) for record in self.records(log)]


_made: list[Any] = []
"""What the test in hand has made that holds descriptors."""


@pytest.fixture(scope="module", autouse=True)
def _what_holds_descriptors_is_noted() -> Iterator[None]:
    def noting(init: Callable[..., None]) -> Callable[..., None]:
        def noted(self: Any, *args: Any, **options: Any) -> None:
            init(self, *args, **options)
            _made.append(self)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for kind in (OpenFiles, DataDirectory):
            patch.setattr(kind, "__init__", noting(kind.__init__))
        yield


@pytest.fixture(autouse=True)
def _descriptors_are_closed() -> Iterator[None]:
    """A test may leave its logs as a crash does, but not thousands of files for the next one."""
    _made.clear()
    yield
    for made in _made:
        if isinstance(made, OpenFiles):
            made.close_all()
        else:
            made.close(clean=False)
    _made.clear()


@pytest.fixture
def tools(tmp_path: Path) -> LogTools:
    """Tools for a log in a directory of its own."""
    return LogTools(tmp_path)


@pytest.fixture
def make_tools() -> Callable[[Path], LogTools]:
    """Tools for a directory that the test chooses."""
    return LogTools


@pytest.fixture
def refused() -> Callable[[ErrorCode], Any]:
    """``with refused(code):`` for a call that has to raise this KafkaError."""

    class Refused:
        def __init__(self, code: ErrorCode) -> None:
            self.code = code
            self.error: KafkaError | None = None

        def __enter__(self) -> "Refused":
            return self

        def __exit__(self, kind: object, error: object, trace: object) -> bool:
            assert isinstance(error, KafkaError), f"{error!r} instead of {self.code!r}"
            assert error.code is self.code, repr(error)
            self.error = error
            return True

    return Refused
