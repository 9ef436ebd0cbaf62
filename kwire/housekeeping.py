"""The tasks that a running server does periodically.

Rules:

- Nothing here makes the event loop wait for a disk: slow work runs in a thread.
- There are three tasks, so that nothing waits for what takes longer: what is due every tick;
  checkpoints and the removal of files, in threads; and retention, which deletes one segment in a
  turn, because thousands may become too old in the same moment.
- Every second, or every ``log.flush.scheduler.interval.ms`` if that is shorter, the task flushes
  partitions that have rolled segments or whose ``flush.ms`` has passed.
- The removal of files whose ``file.delete.delay.ms`` has passed begins within a second.
- Retention and checkpoints start half a minute after the server, high watermarks at once, as in
  Kafka (LogManager.startup, ReplicaManager.startHighWatermarkCheckPointThread).
- Intervals are measured by the steady clock, so that changes of the date have no effect on them.
  The tasks wake up at least every second. After the machine was suspended, overdue work therefore
  begins within a second, including that of the coordinators (``wake_if_due``).
- Producers are forgotten if all logs together know more than ``kwire.producer.ids.max``.
- When a data directory fails, waiting fetches on its partitions are answered. In Kafka they wait
  until another of their partitions gets records, or until their time is up.
- When the last data directory has failed the server ends, because it can serve nothing.
"""

from functools import partial

import trio

from kwire.broker.broker import Broker
from kwire.connection.poller import Poller
from kwire.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
)
from kwire.log.producer_limits import keep_within
from kwire.log.retention import Clocks

TICK_S = 1.0
SHORTEST_TICK_S = 0.01
SWEEP_INTERVAL_S = 5.0
FIRST_TASKS_MS = 30_000


CHECKPOINT_INTERVALS = {
    RECOVERY_POINTS: "log.flush.offset.checkpoint.interval.ms",
    LOG_START_OFFSETS: "log.flush.start.offset.checkpoint.interval.ms",
    HIGH_WATERMARKS: "replica.high.watermark.checkpoint.interval.ms",
}


class StorageLost(Exception):
    """The last data directory has failed; the text is one line that says why."""


class Housekeeping:
    """The periodic tasks of one server; ``poller`` knows its connections."""

    def __init__(self, broker: Broker, poller: Poller) -> None:
        self._broker = broker
        self._poller = poller
        self._clock = broker.clock
        now_ms = self._clock.steady_ms()
        first_ms = now_ms + FIRST_TASKS_MS
        self._sweep_due_s = trio.current_time() + SWEEP_INTERVAL_S
        self._retention_due_ms = first_ms
        self._checkpoint_due_ms = dict.fromkeys(CHECKPOINT_INTERVALS, first_ms)
        self._checkpoint_due_ms[HIGH_WATERMARKS] = now_ms
        call_soon = trio.lowlevel.current_trio_token().run_sync_soon
        broker.log_manager.tell_of_failures(partial(call_soon, self._wake_offline, idempotent=True))

    async def run(self) -> None:
        """Run what is due every tick, forever; StorageLost when the last data directory fails."""
        while True:
            flush_s = self._broker.integer("log.flush.scheduler.interval.ms") / 1000
            tick_s = min(TICK_S, max(flush_s, SHORTEST_TICK_S))
            due_s = trio.current_time() + tick_s
            await trio.sleep(tick_s)
            self._broker.counters.loop_lag.add(max(trio.current_time() - due_s, 0.0))
            await self.tick()

    async def keep_house_forever(self) -> None:
        """Write checkpoints and remove files when that is due, forever."""
        while True:
            await trio.sleep(TICK_S)
            await self.keep_house()

    async def retain_forever(self) -> None:
        """Apply retention when that is due, forever."""
        while True:
            await trio.sleep(TICK_S)
            await self.retain()

    async def tick(self) -> None:
        """Run the tasks that are due; StorageLost when the last data directory has failed."""
        self.check_storage()
        self._clock.detect_jump()
        self.flush_due()
        self._broker.wake_coordinators()
        self._broker.look_at_offline()
        if self._broker.authorizer is not None:
            from kwire.security.audit import follow_level

            follow_level(self._broker.authorizer)
        if self._broker.login_lines is not None:
            self._broker.login_lines.log_left_out()
        await self._bound_producers()
        now_s = trio.current_time()
        self._poller.unauthenticated.end_overdue(now_s)
        self._poller.arriving.end_overdue(now_s)
        if now_s >= self._sweep_due_s:
            self._sweep_due_s = now_s + SWEEP_INTERVAL_S
            self._sweep(now_s)
            await self._broker.retry_offline()
        if any(data.unfinished for data in self._broker.log_manager.data_directories):
            await self._broker.replica_moves.resume_moves()
        self._broker.flusher.forget()

    def check_storage(self) -> None:
        """StorageLost when the last data directory has failed."""
        manager = self._broker.log_manager
        if manager.has_failed:
            reasons = "; ".join(f"{path}: {why}" for path, why in manager.failures.items())
            raise StorageLost(f"every data directory has failed, stopping: {reasons}")

    def flush_due(self) -> None:
        """Start the flushes that are due by ``flush.ms`` or after a roll."""
        steady_ms = self._clock.steady_ms()
        for partition in self._broker.hosted():
            if partition.log.flush_time_is_due(steady_ms) and not partition.is_offline:
                self._broker.flusher.flush_later(partition)

    async def _bound_producers(self) -> None:
        """Forget producers beyond the limit; other tasks get a turn after each log."""
        logs = list(self._broker.log_manager.logs.values())
        for _ in keep_within(logs, self._broker.integer("kwire.producer.ids.max")):
            await trio.lowlevel.checkpoint()

    def _wake_offline(self) -> None:
        """Wake the fetches that wait on an offline partition, so that they are answered."""
        for partition in self._broker.partitions():
            if partition.is_offline:
                partition.wake()
        self._broker.look_at_offline()

    def _sweep(self, now_s: float) -> None:
        """Close connections that are idle too long, and free memory of other idle connections."""
        max_idle_ms = self._broker.integer("connections.max.idle.ms")
        for connection in list(self._poller.connections):
            idle_s = now_s - connection.last_active_s
            if 0 <= max_idle_ms < idle_s * 1000:
                connection.abort_nowait()
            elif idle_s > SWEEP_INTERVAL_S:
                connection.release_memory()
        self._broker.log_manager.look_for_room()

    def _high_watermark(self, key: TopicPartition) -> int:
        """A partition's high watermark; that of an earlier process if the log isn't served."""
        replica = self._broker.replica(*key)
        if replica is not None:
            return replica.high_watermark
        opened = self._broker.log_manager.logs.get(key)
        return 0 if opened is None else self._broker.log_manager.high_watermark_before(opened)

    async def retain(self) -> None:
        """Delete segments past retention and forget old producers, if that is due."""
        clock = self._clock
        if clock.steady_ms() < self._retention_due_ms:
            return
        interval_ms = self._broker.integer("log.retention.check.interval.ms")
        self._retention_due_ms = clock.steady_ms() + interval_ms
        clocks = Clocks(clock.now_ms, clock.steady_ms, clock.ages)
        for _ in self._broker.log_manager.retain(clocks, self._high_watermark):
            await trio.lowlevel.checkpoint()

    async def keep_house(self) -> None:
        """Checkpoints, if due, and removal of deleted files."""
        integer = self._broker.integer
        manager, steady_ms = self._broker.log_manager, self._clock.steady_ms()
        if manager.has_doomed(steady_ms):
            await self._broker.threads.housekeeping.run(manager.remove_doomed, steady_ms)
        due = [name for name, due_ms in self._checkpoint_due_ms.items() if steady_ms >= due_ms]
        for name in due:
            self._checkpoint_due_ms[name] = steady_ms + integer(CHECKPOINT_INTERVALS[name])
        if due:
            await self._broker.threads.housekeeping.run(
                manager.checkpoint, self._broker.high_watermarks, due
            )
