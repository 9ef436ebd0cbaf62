"""The broker's share coordinator: the states of share partitions in ``__share_group_state``.

Rules:

- The state of a share partition is in a partition of the topic (``lookup``). Its coordinator is
  loaded when this broker begins to lead the partition, and dropped when it stops leading it. While
  it is loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.
- A request for a partition that doesn't exist gets UNKNOWN_TOPIC_OR_PARTITION. The states of
  deleted topics are deleted.
- At Kafka's intervals the broker writes snapshots of states that nobody writes to, and deletes the
  records that no state needs (``share.coordinator.state.topic.prune.interval.ms``).

Source: ShareCoordinatorService of Kafka.
"""

import logging
from typing import TYPE_CHECKING

import trio

from kwire.broker.coordinator_log import CoordinatorLog
from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.partition import Partition
from kwire.broker.view import BrokerView
from kwire.coordinator.effects import Effects
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import SHARE_STATE_TOPIC
from kwire.runtime import CoordinatorRuntime
from kwire.share.key import SharePartitionKey
from kwire.share.state_coordinator import ShareState, ShareStateCoordinator, StateWrite

if TYPE_CHECKING:
    from kwire.broker.delayed_response import CommittedRecords

log = logging.getLogger(__name__)


class LoadedStates:
    """A coordinator that is ready, the runtime that drives it, and its partition."""

    __slots__ = ("committed", "coordinator", "partition", "runtime")

    def __init__(
        self,
        coordinator: ShareStateCoordinator,
        runtime: CoordinatorRuntime,
        partition: Partition,
        committed: "CommittedRecords | None",
    ) -> None:
        self.coordinator = coordinator
        self.runtime = runtime
        self.partition = partition
        self.committed = committed

    async def settled(self) -> None:
        """Wait until what is written now is on the disk, if it has to be, and replicated.

        Raises KafkaError if that fails.
        """
        flush = self.partition.flush
        if flush is not None:
            await flush.wait()
        if self.committed is not None:
            await self.committed.replicated()


class ShareStates:
    """The persistent states of all share partitions whose coordinator is this broker."""

    topic_name = SHARE_STATE_TOPIC

    def __init__(self, broker: BrokerView) -> None:
        self._broker = broker
        self.lookup = CoordinatorLookup(broker, SHARE_STATE_TOPIC)
        self._loaded: dict[int, LoadedStates] = {}
        self._look_again = trio.Event()
        self._look_again.set()
        self._due = trio.Event()
        steady_ms, integer = broker.clock.steady_ms, broker.integer
        self._prune_ms = integer("share.coordinator.state.topic.prune.interval.ms")
        self._cold_ms = integer("share.coordinator.cold.partition.snapshot.interval.ms")
        self._prune_at_ms = steady_ms() + self._prune_ms
        self._cold_at_ms = steady_ms() + self._cold_ms
        self._is_closed = False

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew; KafkaError as for ``of``, and FENCED_STATE_EPOCH."""
        self._check_exists(key)
        loaded, date_ms = self.of(key), self._broker.now_ms()
        effects = loaded.coordinator.initialize(key, state_epoch, start_offset, date_ms)
        loaded.runtime.carry_out(effects)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """A share partition's state for its leader; earlier leaders are fenced.

        Raises KafkaError as for ``of``, and INVALID_REQUEST without a state, FENCED_LEADER_EPOCH.
        """
        self._check_exists(key)
        loaded = self.of(key)
        state, effects = loaded.coordinator.read(key, leader_epoch, self._broker.now_ms())
        if effects is not None:
            loaded.runtime.carry_out(effects)
        return state

    def write(self, key: SharePartitionKey, wanted: StateWrite) -> None:
        """Change a share partition's state.

        Raises KafkaError as for ``read``, and FENCED_STATE_EPOCH.
        """
        self._check_exists(key)
        loaded = self.of(key)
        loaded.runtime.carry_out(loaded.coordinator.write(key, wanted, self._broker.now_ms()))

    def delete(self, key: SharePartitionKey) -> None:
        """End a share partition's state; KafkaError as for ``of``."""
        loaded = self.of(key)
        loaded.runtime.carry_out(loaded.coordinator.delete(key))

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """A share partition's state, None if it has none; KafkaError as for ``of``."""
        self._check_exists(key)
        return self.of(key).coordinator.summary(key)

    def _check_exists(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            text = "The partition id cannot be a negative number."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        topic = self._broker.image.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def of(self, key: SharePartitionKey) -> LoadedStates:
        """The coordinator of a share partition; the current answer rests on its records.

        Raises KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST for a
        group without a name.
        """
        if not key.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._get(self.lookup.partition_of(key.coordinator_key))

    def _get(self, index: int) -> LoadedStates:
        loaded = self._loaded.get(index)
        if loaded is not None and not self.lookup.is_here(loaded.partition):
            del self._loaded[index]
            loaded = None
        if loaded is None:
            self._loaded[index] = loaded = self._new(self.lookup.empty_partition(index))
        if loaded.committed is not None:
            self._broker.flusher.rest_on(loaded.committed)
        return loaded

    def loaded(self) -> list[LoadedStates]:
        """The coordinators that are ready now."""
        return list(self._loaded.values())

    def all_coordinators(self) -> list[LoadedStates]:
        """Every coordinator whose partition can be used.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) while one isn't ready.
        """
        return [self._get(index) for index in self.lookup.partitions_here()]

    def close(self) -> None:
        """Refer requests to another coordinator, because the broker stops."""
        self._is_closed = True

    # Work that no request causes

    def wake_if_due(self) -> None:
        """Wake the task that keeps time when its work is overdue, also after a sleep."""
        if self._broker.clock.steady_ms() >= min(self._prune_at_ms, self._cold_at_ms):
            self._due.set()

    def look_again(self) -> None:
        """Load and drop coordinators, because this broker may lead other partitions now."""
        self._look_again.set()

    async def run(self) -> None:
        """Load every coordinator, then do the overdue work, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_partitions)
            await self._keep_time()

    async def _follow_partitions(self) -> None:
        """Compare the coordinators with the partitions led here, whenever these change."""
        while True:
            await self._look_again.wait()
            self._look_again = trio.Event()
            for index, loaded in list(self._loaded.items()):
                if not self.lookup.is_here(loaded.partition):
                    del self._loaded[index]
            for partition in self.lookup.partitions_to_load():
                if partition.index not in self._loaded:
                    await self._load(partition)
            await self.forget_deleted_topics()

    async def _load(self, partition: Partition) -> None:
        batches = CoordinatorLog(partition, self.lookup.is_here)
        loaded = self._new(partition)
        try:
            await loaded.runtime.load(batches)
        except (KafkaError, OSError) as error:
            if not self.lookup.is_here(partition):
                return  # its next leader may have truncated it meanwhile
            batches.say_why_not_loaded(error, "the share groups whose state it keeps")
            self.lookup.mark_damaged(partition)
            return
        if self.lookup.is_here(partition):
            self._loaded[partition.index] = loaded

    def _new(self, partition: Partition) -> LoadedStates:
        setting = "share.coordinator.snapshot.update.records.per.snapshot"
        coordinator = ShareStateCoordinator(self._broker.integer(setting))
        runtime = CoordinatorRuntime(
            coordinator,
            partition.append_own,
            self._broker.now_ms,
            lambda _: None,
            compression=self._broker.integer("share.coordinator.state.topic.compression.codec"),
            flush=lambda: partition.flush,
            do_afterwards=lambda function: self._broker.do_afterwards(function),
        )
        committed = self.lookup.committed_of(partition, "share.coordinator.write.timeout.ms")
        return LoadedStates(coordinator, runtime, partition, committed)

    async def forget_deleted_topics(self) -> None:
        """Delete the states of partitions whose topics were deleted."""
        topics = self._broker.image.topics_by_id
        for loaded in self.loaded():
            for effects in loaded.coordinator.forget_topics(lambda one: one not in topics):
                self._carry_out(loaded, effects)
                await trio.lowlevel.checkpoint()

    async def _keep_time(self) -> None:
        """Write snapshots and prune records, whenever that is due."""
        steady_ms = self._broker.clock.steady_ms
        while True:
            self._due = trio.Event()
            wait_s = max(0, min(self._prune_at_ms, self._cold_at_ms) - steady_ms()) / 1000
            with trio.move_on_after(wait_s):
                await self._due.wait()
            if steady_ms() >= self._cold_at_ms:
                self._cold_at_ms = steady_ms() + self._cold_ms
                await self._write_cold_snapshots()
            if steady_ms() >= self._prune_at_ms:
                self._prune_at_ms = steady_ms() + self._prune_ms
                await self.prune()

    async def _write_cold_snapshots(self) -> None:
        for loaded in self.loaded():
            date_ms = self._broker.now_ms()
            for effects in loaded.coordinator.snapshot_cold(self._cold_ms, date_ms):
                self._carry_out(loaded, effects)
                await trio.lowlevel.checkpoint()

    async def prune(self) -> None:
        """Delete the records before the oldest snapshot that is still needed."""
        for loaded in self.loaded():
            partition = loaded.partition
            if not self.lookup.is_here(partition):
                continue
            needed = loaded.coordinator.oldest_needed(partition.log.log_end_offset)
            before = min(needed, partition.high_watermark)
            if before > partition.log.log_start_offset:
                try:
                    partition.delete_records(before)
                except KafkaError as error:
                    log.error("cannot delete old records of %s: %s", SHARE_STATE_TOPIC, error)
            await trio.lowlevel.checkpoint()

    def _carry_out(self, loaded: LoadedStates, effects: Effects) -> None:
        """Carry out effects that no request caused; log a failure, and try again later."""
        try:
            if self.lookup.is_here(loaded.partition):
                loaded.runtime.carry_out(effects)
        except KafkaError as error:
            log.error("cannot write to %s: %s", SHARE_STATE_TOPIC, error)
