"""The broker's share coordinator: the states of share partitions in ``__share_group_state``.

Rules (besides those of ``PartitionCoordinators``):

- A request for a partition that doesn't exist gets UNKNOWN_TOPIC_OR_PARTITION. The states of
  deleted topics are deleted.
- Where dead letters may be missing, this broker's share partitions write them (``_after_loading``).
- At Kafka's intervals the broker writes snapshots of states that nobody writes to, and deletes the
  records that no state needs (``share.coordinator.state.topic.prune.interval.ms``).

Source: ShareCoordinatorService of Kafka.
"""

import logging

import trio

from kwire.broker.partition import Partition
from kwire.broker.partition_coordinators import Loaded, PartitionCoordinators, Periodic
from kwire.broker.view import BrokerView
from kwire.coordinator.effects import Effects
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import SHARE_STATE_TOPIC
from kwire.share.key import SharePartitionKey
from kwire.share.state_coordinator import ShareState, ShareStateCoordinator, StateWrite

log = logging.getLogger(__name__)

COLD_INTERVAL = "share.coordinator.cold.partition.snapshot.interval.ms"


class LoadedStates(Loaded[ShareStateCoordinator]):
    """A share coordinator that is ready."""

    __slots__ = ()

    async def settled(self) -> None:
        """Wait until what is written now is on the disk, if it has to be, and replicated.

        Raises KafkaError if that fails.
        """
        flush = self.partition.flush
        if flush is not None:
            await flush.wait()
        if self.committed is not None:
            await self.committed.replicated()


class ShareStates(PartitionCoordinators[LoadedStates]):
    """The persistent states of all share partitions whose coordinator is this broker."""

    topic_name = SHARE_STATE_TOPIC
    unusable = "the share groups whose state it keeps"

    def __init__(self, broker: BrokerView) -> None:
        super().__init__(
            broker,
            Periodic(COLD_INTERVAL, self._write_cold_snapshots),
            Periodic("share.coordinator.state.topic.prune.interval.ms", self.prune),
        )

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew; KafkaError as for ``home_of``, and FENCED_STATE_EPOCH."""
        self._check_exists(key)
        loaded, date_ms = self.home_of(key), self._broker.now_ms()
        effects = loaded.coordinator.initialize(key, state_epoch, start_offset, date_ms)
        loaded.carry_out(effects)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """A share partition's state for its leader; earlier leaders are fenced.

        Raises KafkaError as for ``home_of``, and INVALID_REQUEST without a state,
        FENCED_LEADER_EPOCH.
        """
        self._check_exists(key)
        loaded = self.home_of(key)
        state, effects = loaded.coordinator.read(key, leader_epoch, self._broker.now_ms())
        if effects is not None:
            loaded.carry_out(effects)
        return state

    def write(self, key: SharePartitionKey, wanted: StateWrite) -> None:
        """Change a share partition's state.

        Raises KafkaError as for ``read``, and FENCED_STATE_EPOCH.
        """
        self._check_exists(key)
        loaded = self.home_of(key)
        loaded.carry_out(loaded.coordinator.write(key, wanted, self._broker.now_ms()))

    def delete(self, key: SharePartitionKey) -> None:
        """End a share partition's state; KafkaError as for ``home_of``."""
        loaded = self.home_of(key)
        loaded.carry_out(loaded.coordinator.delete(key))

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """A share partition's state, None if it has none; KafkaError as for ``home_of``."""
        self._check_exists(key)
        return self.home_of(key).coordinator.summary(key)

    def _check_exists(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            text = "The partition id cannot be a negative number."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        topic = self._broker.image.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def home_of(self, key: SharePartitionKey) -> LoadedStates:
        """The coordinator of a share partition; the current answer rests on its records.

        Raises KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST for a
        group without a name.
        """
        if not key.group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return self.of(key.coordinator_key)

    # Work that no request causes

    async def _after_loading(self) -> None:
        await self.forget_deleted_topics()
        keys = [key for loaded in self.loaded() for key in loaded.coordinator.archiving]
        if keys:
            self._broker.share_partitions.resume(keys)

    def _new(self, partition: Partition) -> LoadedStates:
        setting = "share.coordinator.snapshot.update.records.per.snapshot"
        coordinator = ShareStateCoordinator(self._broker.integer(setting))
        compression = self._broker.integer("share.coordinator.state.topic.compression.codec")
        runtime = self._runtime(coordinator, partition, compression=compression)
        committed = self.lookup.committed_of(partition, "share.coordinator.write.timeout.ms")
        return LoadedStates(coordinator, runtime, partition, committed)

    async def forget_deleted_topics(self) -> None:
        """Delete the states of partitions whose topics were deleted."""
        topics = self._broker.image.topics_by_id
        for loaded in self.loaded():
            for effects in loaded.coordinator.forget_topics(lambda one: one not in topics):
                self._try_effects(loaded, effects)
                await trio.lowlevel.checkpoint()

    async def _write_cold_snapshots(self) -> None:
        cold_ms = self._broker.integer(COLD_INTERVAL)
        for loaded in self.loaded():
            date_ms = self._broker.now_ms()
            for effects in loaded.coordinator.snapshot_cold(cold_ms, date_ms):
                self._try_effects(loaded, effects)
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

    def _try_effects(self, loaded: LoadedStates, effects: Effects) -> bool:
        return self.lookup.is_here(loaded.partition) and super()._try_effects(loaded, effects)
