"""What the tests of compaction share: a log of keys and values, and cleaning it in one call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.log.compaction.job import CompactionStatistics
from kwire.log.compaction.local import run_clean
from kwire.log.compaction.manager import CompactionManager, CompactionSettings, Failure
from kwire.log.compaction.worker import answers
from kwire.log.disk import Disk
from kwire.log.partition_log import PartitionLog
from kwire.record.batch import Buffer
from kwire.record.records import records
from tests.support.log_state import base_offsets, close_files

SETTINGS: dict[str, Any] = {
    "compact": True,
    "delete": False,
    "segment_bytes": 1000,
    "index_interval_bytes": 100,
    "segment_index_bytes": 800,
    "min_cleanable_dirty_ratio": 0.01,
    "delete_retention_ms": 1000,
}


class Compaction:
    """One log, ``t-0``, and the compaction of it; ``now_ms`` is put forward by the test."""

    def __init__(self, tools: Any, settings: dict[str, Any], **options: Any) -> None:
        self.tools = tools
        self.now_ms: int = tools.now_ms
        self.settings = {**SETTINGS, **settings}
        self.options = CompactionSettings(**options)
        self.log: PartitionLog = tools.open(**self.settings)
        self.begin()

    def begin(self, disk: Disk | None = None) -> None:
        """A manager that knows the log and what the checkpoint says."""
        self.logs = {("t", 0): self.log}
        self.manager = CompactionManager(self.logs, [self.tools.root], disk or self.tools.disk)

    def reopen(self, *, clean: bool = False) -> None:
        """Close the log, after a flush or as a crash does, and open it again."""
        if clean:
            self.log.close(self.now_ms)
        close_files(self.log)
        self.log = self.tools.open(
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
            **self.settings,
        )
        self.begin()

    def put(self, key: str, value: str | None, **options: Any) -> int:
        """Append one record; its offset. Options are those of ``LogTools.batch``."""
        return self.put_batch([(key, value)], **options)

    def put_batch(self, items: list[tuple[str | None, str | None]], **options: Any) -> int:
        """Append one batch of records; its first offset."""
        keys = tuple(None if key is None else key.encode() for key, _ in items)
        values = [None if value is None else value.encode() for _, value in items]
        batch = self.tools.batch(*values, keys=keys, **{"timestamp": self.now_ms, **options})
        info = self.log.append(batch, leader_epoch=0, now_ms=self.now_ms)
        return info.first_offset

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        """Append the marker that ends a producer's transaction; its offset."""
        offset = self.log.log_end_offset
        marker = self.tools.marker(producer_id, epoch, commit=commit)
        self.tools.append_marker(self.log, marker)
        return offset

    def next_clean(self) -> Any:
        """Begin a clean of the log, None where it isn't worth one."""
        log = self.log
        unstable = log.first_unstable_offset
        stable = log.log_end_offset if unstable is None else unstable
        return self.manager.next_clean(lambda key: stable, self.options, self.now_ms, self.now_ms)

    def compact(self, *, roll: bool = True) -> CompactionStatistics | None:
        """Roll, and clean the log if it is worth it; what that took."""
        if roll:
            self.log.roll(self.now_ms)
        clean = self.next_clean()
        if clean is None:
            return None
        assert run_clean(self.manager, clean, self.tools.disk, self.now_ms)
        return self.manager.metrics.last

    def compact_failing(self) -> Failure | None:
        """Clean the log as a broker does, and give up when that fails; why it did."""
        clean = self.next_clean()
        for answer in answers(clean.job, self.tools.disk):
            if "failed" in answer:
                failure = Failure(*answer["failed"])
                self.manager.give_up(clean, failure, self.now_ms)
                return failure
        return None

    def contents(self) -> list[tuple[int, str | None, str | None]]:
        """Offset, key and value of every record that a consumer sees, markers left out."""
        found = []
        for batch in self.tools.batches(self.log):
            if not batch.is_control:
                found += [
                    (record.offset, _text(record.key), _text(record.value))
                    for record in records(batch)
                ]
        return found

    def shapes(self) -> list[tuple[int, int, int]]:
        """First offset, last offset and number of records of every batch."""
        return [
            (batch.base_offset, batch.last_offset, batch.records_count)
            for batch in self.tools.batches(self.log)
        ]

    def bases(self) -> list[int]:
        """Where the segments begin."""
        return base_offsets(self.log)


class Crash(BaseException):
    """The process is gone."""


class CrashingDisk(Disk):
    """A disk whose ``crash_at``-th call that changes something never happens."""

    Crash = Crash

    def __init__(self, crash_at: int) -> None:
        self.calls = 0
        self.crash_at = crash_at

    def _count(self) -> None:
        self.calls += 1
        if self.calls - 1 == self.crash_at:
            raise Crash

    def open(self, path: Path, *, create: bool = False) -> int:
        """Open."""
        if create:
            self._count()
        return super().open(path, create=create)

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write."""
        self._count()
        super().pwrite_all(fd, data, position)

    def rename(self, old: Path, new: Path) -> None:
        """Rename."""
        self._count()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        """Remove."""
        self._count()
        super().remove(path)

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Set the time."""
        self._count()
        super().set_modified_ms(path, modified_ms)

    def sync(self, fd: int) -> None:
        """Nothing: the tests end with the process, not with the machine."""

    def sync_directory(self, path: Path) -> None:
        """Nothing."""


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


@pytest.fixture
def compaction(tools: Any) -> Callable[..., Compaction]:
    """Makes a compacted log: fields of LogConfig, and ``options`` of CompactionSettings."""

    def make(options: dict[str, Any] | None = None, **settings: Any) -> Compaction:
        return Compaction(tools, settings, **(options or {}))

    return make


@pytest.fixture
def new_compaction() -> type[Compaction]:
    """The class, for those who have tools of their own."""
    return Compaction


@pytest.fixture
def crashing_disk() -> type[CrashingDisk]:
    """The class: ``crashing_disk(n)`` raises its ``Crash`` instead of the n-th change."""
    return CrashingDisk
