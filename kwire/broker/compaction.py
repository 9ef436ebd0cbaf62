"""Compaction in a running broker: it picks logs to clean, and a separate process cleans them.

Rules:

- Every ``log.cleaner.backoff.ms`` a cleaner cleans the dirtiest log, then the next one, until it
  finds no dirty log. There are ``log.cleaner.threads`` cleaners, which share memory and rate.
- The process starts when there is a log to clean, and ends when no log is left. If it dies, only
  the current clean is lost.
- The broker itself only renames files. Changed settings take effect with the next clean.

Source: LogCleaner of Kafka.
"""

import json
import logging
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Protocol

import trio

from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.config.settings import Value
from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.compaction.job import (
    CleanedGroup,
    CompactionJob,
    CompactionResult,
    CompactionStatistics,
)
from kwire.log.compaction.manager import (
    Clean,
    CompactionManager,
    CompactionSettings,
    Failure,
)
from kwire.log.compaction.swap import begin_swap, finish_swap, undo_swap
from kwire.log.manager import LogManager

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""How often a waiting cleaner checks the time, so that changed settings count soon."""

LEAST_BACKOFF_S = 0.01
RECEIVE_BYTES = 64 * 1024
COMMAND = (sys.executable, "-P", "-m", "kwire.log.compaction.worker")


class CompactedBroker(Protocol):
    """A broker as compaction sees it."""

    threads: Threads
    log_manager: LogManager
    clock: Clock
    now_ms: Callable[[], int]

    def setting(self, name: str) -> Value:
        """The effective value of a setting."""

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""

    def stable_offset(self, key: TopicPartition) -> int | None:
        """The offset up to which a log may be cleaned; None while it may not be at all."""


class WorkerDied(Exception):
    """The process ended in the middle of a clean."""


class Worker:
    """The process that cleans logs; it starts with its first job."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._received = bytearray()

    @property
    def pid(self) -> int | None:
        """The process id, None if the process isn't started."""
        return None if self._process is None else self._process.pid

    async def start_job(self, job: CompactionJob) -> None:
        """Give the process a job. Raises WorkerDied, and OSError if the process can't start."""
        if self._process is None:
            self._process = await trio.lowlevel.open_process(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(json.dumps(job.to_json()).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise WorkerDied("the input of the cleaning process is closed") from error

    async def answer(self) -> dict[str, Any]:
        """The next message of the process about its job. Raises WorkerDied."""
        assert self._process is not None
        assert self._process.stdout is not None
        while (end := self._received.find(b"\n")) < 0:
            data = await self._process.stdout.receive_some(RECEIVE_BYTES)
            if not data:
                raise WorkerDied(f"the process ended with status {await self._process.wait()}")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """End the process, even in the middle of a clean."""
        process, self._process = self._process, None
        self._received.clear()
        if process is None:
            return
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    await stream.aclose()


class Compaction:
    """The compaction of one broker's logs."""

    def __init__(self, broker: CompactedBroker) -> None:
        self._broker = broker
        self._steady_ms = broker.clock.steady_ms
        manager = broker.log_manager
        self.manager = CompactionManager(manager.logs, manager.directories, manager.disk)
        self.workers: set[Worker] = set()

    async def run(self) -> None:
        """Clean logs forever, unless ``log.cleaner.enable`` is off."""
        if not self._broker.setting("log.cleaner.enable"):
            return
        started = 0
        async with trio.open_nursery() as nursery:
            while True:
                while started < self._broker.integer("log.cleaner.threads"):
                    nursery.start_soon(self._clean_often, started)
                    started += 1
                await trio.sleep(PAUSE_S)

    async def _clean_often(self, number: int) -> None:
        """The life of one cleaner; it rests while the settings ask for fewer cleaners."""
        while True:
            await self.wait_backoff()
            if number < self._broker.integer("log.cleaner.threads"):
                await self._clean_all()

    async def wait_backoff(self) -> None:
        """Wait for ``log.cleaner.backoff.ms``, which may change meanwhile. A suspend counts."""
        began_ms = self._steady_ms()
        while True:
            backoff_s = max(self._broker.integer("log.cleaner.backoff.ms") / 1000, LEAST_BACKOFF_S)
            left_s = backoff_s - (self._steady_ms() - began_ms) / 1000
            if left_s <= 0:
                return
            await trio.sleep(min(left_s, PAUSE_S))

    async def _clean_all(self) -> None:
        """Clean the dirtiest log until no log is dirty, or until a clean fails."""
        worker = Worker()
        self.workers.add(worker)
        try:
            while True:
                clean = self.manager.next_clean(
                    self._broker.stable_offset,
                    self.settings(),
                    self._broker.now_ms(),
                    self._steady_ms(),
                )
                if clean is None or not await self._clean(clean, worker):
                    return
        finally:
            await worker.end()
            self.workers.discard(worker)

    def settings(self) -> CompactionSettings:
        """One cleaner's share of the settings."""
        integer = self._broker.integer
        cleaners = max(integer("log.cleaner.threads"), 1)
        rate = self._broker.setting("log.cleaner.io.max.bytes.per.second")
        load_factor = self._broker.setting("log.cleaner.io.buffer.load.factor")
        assert isinstance(rate, float)
        assert isinstance(load_factor, float)
        return CompactionSettings(
            map_bytes=integer("log.cleaner.dedupe.buffer.size") // cleaners,
            map_load_factor=load_factor,
            buffer_bytes=integer("log.cleaner.io.buffer.size") // cleaners // 2,
            max_bytes_per_second=rate / cleaners if math.isfinite(rate) else rate,
            max_decompressed_bytes=integer("kwire.decompressed.max.bytes"),
            max_decompressed_records=integer("kwire.decompressed.max.records"),
        )

    async def _clean(self, clean: Clean, worker: Worker) -> bool:
        """Have a log cleaned; return whether that succeeded."""
        try:
            failure = await self._carry_out(clean, worker)
        except (OSError, WorkerDied, KafkaError) as error:
            failure = Failure(str(error))
        except BaseException:
            await worker.end()
            self.manager.give_up(clean, Failure("the broker stops"), self._steady_ms())
            raise
        if failure is None:
            return True
        await worker.end()
        self.manager.give_up(clean, failure, self._steady_ms())
        return False

    async def _carry_out(self, clean: Clean, worker: Worker) -> Failure | None:
        """Have a log cleaned; return the failure, None if there is none."""
        manager = self.manager
        # A cleaned record must be as durable as the records that it replaces.
        await self._broker.threads.housekeeping.run(clean.log.flush_rolled)
        await worker.start_job(clean.job)
        while True:
            answer = await worker.answer()
            if "failed" in answer:
                return Failure(*answer["failed"])
            if "group" not in answer:
                break
            base_offset, size_bytes, replaced = answer["group"]
            group = CleanedGroup(base_offset, size_bytes, tuple(replaced))
            if not await self._swap(clean, group):
                return Failure("its segments have changed")
        statistics = CompactionStatistics(**answer["statistics"])
        manager.finish(clean, CompactionResult(answer["end_offset"], statistics))
        await self._broker.threads.housekeeping.run(manager.write_checkpoints)
        return None

    async def _swap(self, clean: Clean, group: CleanedGroup) -> bool:
        """Put a cleaned segment in its place; threads wait for the disk.

        Returns False if the log has changed since the clean began.
        """
        log, disk = clean.log, self._broker.log_manager.disk
        old = self.manager.replaced_by(clean, group)
        if not old:
            return old is not None
        if not begin_swap(log, old, group, disk):
            return False
        try:
            await self._broker.threads.housekeeping.run(self._sync, clean)
        except BaseException:
            undo_swap(log, group, disk)
            raise
        if not self.manager.is_there(clean):  # the log was truncated meanwhile
            undo_swap(log, group, disk)
            return False
        if not finish_swap(log, old, group, self._steady_ms(), disk):
            return False
        await self._broker.threads.housekeeping.run(self._sync, clean)
        return True

    def _sync(self, clean: Clean) -> None:
        """Wait until the names of a swap are on the disk; KafkaError, OSError."""
        try:
            self._broker.log_manager.disk.sync_directory(clean.log.directory)
        except FileNotFoundError:
            raise  # the partition was deleted meanwhile
        except OSError as error:
            raise clean.log.health.sync_failed(f"cannot sync {clean.log.name}", error) from error
