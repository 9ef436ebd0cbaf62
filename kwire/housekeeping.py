"""What a running server does of itself, each thing when its time has come.

Rules:

- Nothing here waits for a disk in the event loop: what may take long runs in a thread.
- What is to be flushed for the time that has passed (``flush.ms``), and segments that were rolled,
  are looked for every second, or every ``log.flush.scheduler.interval.ms`` where that is shorter.
- Files whose ``file.delete.delay.ms`` has passed are removed within a second.
- Retention and checkpoints begin half a minute after the start, as in Kafka.
- Intervals go by the steady clock, so that a date that is set stops or hurries nothing. The task
  wakes up at least every second, so after the machine's sleep all that has become due is done
  within a second, the coordinators' part included (``wake_if_due``).
- Producers are forgotten where all logs know more than ``kwire.producer.ids.max`` together.
- When a data directory fails, the fetches that wait on its partitions are answered. In Kafka
  they wait until somebody appends to another of their partitions, or time is up.
- When the last data directory has failed there is nothing left to serve: the server ends.
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
    """No data directory is left; the text is one line that says why."""


class Housekeeping:
    """The tasks of one server; ``poller`` knows its connections."""

    def __init__(self, broker: Broker, poller: Poller) -> None:
        self._broker = broker
        self._poller = poller
        self._clock = broker.clock
        first_ms = self._clock.steady_ms() + FIRST_TASKS_MS
        self._sweep_due_s = trio.current_time() + SWEEP_INTERVAL_S
        self._retention_due_ms = first_ms
        self._checkpoint_due_ms = dict.fromkeys(CHECKPOINT_INTERVALS, first_ms)
        call_soon = trio.lowlevel.current_trio_token().run_sync_soon
        broker.log_manager.tell_of_failures(partial(call_soon, self._wake_offline, idempotent=True))

    async def run(self) -> None:
        """Do what is due, for ever; StorageLost when the last data directory has failed."""
        while True:
            flush_s = self._broker.integer("log.flush.scheduler.interval.ms") / 1000
            await trio.sleep(min(TICK_S, max(flush_s, SHORTEST_TICK_S)))
            await self.tick()

    async def tick(self) -> None:
        """Do what is due now; StorageLost when the last data directory has failed."""
        self.check_storage()
        self._clock.look()
        self.flush_due()
        self._broker.wake_coordinators()
        await self._bound_producers()
        now_s = trio.current_time()
        if now_s >= self._sweep_due_s:
            self._sweep_due_s = now_s + SWEEP_INTERVAL_S
            self._sweep(now_s)
            await self._broker.retry_offline()
        await self.keep_house()

    def check_storage(self) -> None:
        """StorageLost when the last data directory has failed."""
        manager = self._broker.log_manager
        if manager.has_failed:
            reasons = "; ".join(f"{path}: {why}" for path, why in manager.failures.items())
            raise StorageLost(f"every data directory has failed, stopping: {reasons}")

    def flush_due(self) -> None:
        """Have everything flushed whose time has come, whether or not somebody appends to it."""
        steady_ms = self._clock.steady_ms()
        for partition in self._broker.partitions():
            if partition.log.flush_time_is_due(steady_ms) and not partition.is_offline:
                self._broker.flusher.demand(partition)
        self._broker.flusher.forget()

    async def _bound_producers(self) -> None:
        """Forget the producers beyond the limit; others have their turn after each log."""
        logs = list(self._broker.log_manager.logs.values())
        for _ in keep_within(logs, self._broker.integer("kwire.producer.ids.max")):
            await trio.lowlevel.checkpoint()

    def _wake_offline(self) -> None:
        """Whoever waits on a partition that is offline is told."""
        for partition in self._broker.partitions():
            if partition.is_offline:
                partition.wake()

    def _sweep(self, now_s: float) -> None:
        """Idle connections end or give back memory."""
        max_idle_ms = self._broker.integer("connections.max.idle.ms")
        for connection in list(self._poller.connections):
            idle_s = now_s - connection.last_active_s
            if 0 <= max_idle_ms < idle_s * 1000:
                connection.abort_nowait()
            elif idle_s > SWEEP_INTERVAL_S:
                connection.release_memory()
        self._broker.log_manager.look_for_room()

    async def keep_house(self) -> None:
        """Retention and checkpoints, when their interval has passed; files that are to go."""
        integer = self._broker.integer
        manager = self._broker.log_manager
        clock, steady_ms = self._clock, self._clock.steady_ms()
        if steady_ms >= self._retention_due_ms:
            self._retention_due_ms = steady_ms + integer("log.retention.check.interval.ms")
            watermarks = self._high_watermarks()
            manager.housekeeping(clock.now_ms(), steady_ms, clock.ages(), watermarks)
        if manager.has_doomed(steady_ms):
            await self._broker.threads.housekeeping.run(manager.remove_doomed, steady_ms)
        due = [name for name, due_ms in self._checkpoint_due_ms.items() if steady_ms >= due_ms]
        for name in due:
            self._checkpoint_due_ms[name] = steady_ms + integer(CHECKPOINT_INTERVALS[name])
        if due:
            await self._broker.threads.housekeeping.run(
                manager.checkpoint, self._high_watermarks(), due
            )

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {(p.topic, p.index): p.high_watermark for p in self._broker.partitions()}
