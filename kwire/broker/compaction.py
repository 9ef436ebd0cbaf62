"""Compaction in a running broker: which log is cleaned when, by a process that is started for it.

Rules:

- A cleaner looks every ``log.cleaner.backoff.ms`` for the dirtiest log, and goes on as long as it
  finds one. There are ``log.cleaner.threads`` of them; memory and rate are shared out among them.
- The process is started when there is something to clean, and ended when there is nothing left.
  Its death costs the clean it was at, nothing more.
- The broker itself only renames files. Settings take effect with the next clean.

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

from kwire.broker.partition import Partition
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
"""How often is looked whether it is time, so that changed settings count soon."""

LEAST_BACKOFF_S = 0.01
RECEIVE_BYTES = 64 * 1024
COMMAND = (sys.executable, "-P", "-m", "kwire.log.compaction.worker")


class CompactedBroker(Protocol):
    """A broker, as far as its logs are compacted."""

    threads: Threads
    log_manager: LogManager
    clock: Clock
    now_ms: Callable[[], int]

    def setting(self, name: str) -> Value:
        """The effective value of a setting."""

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name; KafkaError where it can't be served."""


class WorkerDied(Exception):
    """The process ended in the middle of a clean."""


class Worker:
    """The process, from its first job on."""

    def __init__(self) -> None:
        self._process: trio.Process | None = None
        self._received = bytearray()

    @property
    def pid(self) -> int | None:
        """Its process id, None where it isn't started."""
        return None if self._process is None else self._process.pid

    async def begin(self, job: CompactionJob) -> None:
        """Give it a job. Raises OSError where it can't be started, WorkerDied."""
        if self._process is None:
            self._process = await trio.lowlevel.open_process(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(json.dumps(job.to_json()).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise WorkerDied("its input is closed") from error

    async def answer(self) -> dict[str, Any]:
        """The next message about the job. Raises WorkerDied."""
        assert self._process is not None
        assert self._process.stdout is not None
        while (end := self._received.find(b"\n")) < 0:
            data = await self._process.stdout.receive_some(RECEIVE_BYTES)
            if not data:
                raise WorkerDied(f"it ended with status {await self._process.wait()}")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """End the process, whatever it is doing."""
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
        """Clean logs for ever, unless ``log.cleaner.enable`` says no."""
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
        """The life of one cleaner; it rests while there are to be fewer of them."""
        while True:
            await self._wait_backoff()
            if number < self._broker.integer("log.cleaner.threads"):
                await self._clean_all()

    async def _wait_backoff(self) -> None:
        """Wait for ``log.cleaner.backoff.ms``, which may be changed meanwhile."""
        began_s = trio.current_time()
        while True:
            backoff_s = max(self._broker.integer("log.cleaner.backoff.ms") / 1000, LEAST_BACKOFF_S)
            left_s = began_s + backoff_s - trio.current_time()
            if left_s <= 0:
                return
            await trio.sleep(min(left_s, PAUSE_S))

    async def _clean_all(self) -> None:
        """Clean the dirtiest log until there is none, or until something goes wrong."""
        worker = Worker()
        self.workers.add(worker)
        try:
            while True:
                clean = self.manager.next_clean(
                    self._stable_offset,
                    self.settings(),
                    self._broker.now_ms(),
                    self._steady_ms(),
                )
                if clean is None or not await self._clean(clean, worker):
                    return
        finally:
            await worker.end()
            self.workers.discard(worker)

    def _stable_offset(self, key: TopicPartition) -> int | None:
        try:
            return self._broker.partition(*key).last_stable_offset
        except KafkaError:
            return None

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
        """Have a log cleaned; whether that went well."""
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
        """Have a log cleaned; what went wrong, None for nothing."""
        manager = self.manager
        # What takes a record's place has to be as sure to stay as the record was.
        await self._broker.threads.housekeeping.run(clean.log.flush_rolled)
        await worker.begin(clean.job)
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
        """Put a cleaned segment in its place, waiting for the disk in threads.

        False where the log is no longer what it was when the clean began.
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
