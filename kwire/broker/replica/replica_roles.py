"""The roles of a broker's replicas: led, followed or given away, as each new image says.

Rules:

- The broker compares its replicas with the image. A change only says which replicas to compare. So
  changes that are merged or seen twice do no harm.
- Roles change in memory, before anything waits for a disk. A new role is a new object, and requests
  that wait for the old object look for the new one. The object stays the same in two cases: a sole
  replica gets a new epoch, or a leader keeps its epoch.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.partition import Partition
from kwire.broker.replica.partition_registry import Hosted, PartitionRegistry
from kwire.broker.replica.roles import Role, Touched, role_of, touched_by
from kwire.log.checkpoints import TopicPartition
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage, PartitionImage, TopicImage

if TYPE_CHECKING:
    from kwire.broker.replica.follower_partition import FollowerPartition
    from kwire.broker.replica.leader_partition import InSyncUpdates

log = logging.getLogger(__name__)

_UNCLEAN = (
    "%s is led by a replica that may lack records (unclean election): records from offset %d on, "
    "which were acknowledged before, are lost"
)

PARTITIONS_PER_TURN = 200
"""How many partitions get new settings or roles before other tasks have their turn."""

LogConfigs: TypeAlias = Callable[[str], LogConfig]
"""Returns the effective settings of a topic's logs by its name; a thread may call it."""


class ReplicaRoles(PartitionRegistry):
    """The roles of one broker's replicas; partitions with followers use ``in_sync_updates``."""

    def __init__(self, node_id: int, flusher: Flusher, log_config: LogConfigs) -> None:
        super().__init__(node_id)
        self.in_sync_updates: Callable[[], InSyncUpdates | None] = lambda: None
        self._flusher = flusher
        self._log_config = log_config
        self._moved: dict[FollowerPartition, None] = {}
        self._given_away: dict[TopicPartition, Hosted] = {}

    def moved_followers(self) -> "list[FollowerPartition]":
        """The followed partitions that began, ended or changed leader or epoch since the last call.

        Partitions with ``is_deleted`` are no longer followed.
        """
        moved, self._moved = list(self._moved), {}
        return moved

    async def take_roles(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        """Give replicas with open logs the roles of the image, without waiting for a disk.

        Settings come first: the controller compares a smaller ISR with the newest
        min.insync.replicas when it decides which replicas are eligible to lead.
        """
        self._record_image(image)
        touched = touched_by(changes)
        await self._configure(image, touched)
        done = 0
        for topic_id, indexes in touched.partitions.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            for index in range(len(topic.partitions)) if indexes is None else indexes:
                replica = await self._at_rest(topic.name, index)
                if replica is None or replica.topic_id != topic_id:
                    continue
                self._give_role(topic, index, replica)
                done += 1
                if done % PARTITIONS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()

    async def _at_rest(self, topic: str, index: int) -> Hosted | None:
        """A replica, as soon as no thread truncates its log."""
        while True:
            replica = self.replica(topic, index)
            if replica is None or isinstance(replica, Partition) or replica.cutting is None:
                return replica
            await replica.cutting.wait()

    def _give_role(self, topic: TopicImage, index: int, replica: Hosted) -> None:
        """Give a replica the role of its row; if it has none, its log is deleted later."""
        row = topic.partitions[index]
        # ``_at_rest`` has waited: the object for the next role goes by where the log ends.
        assert isinstance(replica, Partition) or replica.cutting is None, replica.log.name
        assert row.leader_epoch >= replica.leader_epoch, (replica.log.name, row)
        role = role_of(row, self._node_id)
        if role is Role.NONE:
            self.end_role((topic.name, index))
            self._given_away[topic.name, index] = replica
            return
        if self._stays(replica, role, row):
            return
        self.host(self._as(role, topic, index, replica.log, replica.high_watermark))

    def _stays(self, replica: Hosted, role: Role, row: PartitionImage) -> bool:
        """Whether a replica can keep its object; if so, the object is updated from the row."""
        if not isinstance(replica, Partition):
            if role is not Role.FOLLOWER:
                return False
            if (replica.leader, replica.leader_epoch) != (row.leader, row.leader_epoch):
                replica.leader, replica.leader_epoch = row.leader, row.leader_epoch
                self._moved[replica] = None
            return True
        if role is Role.SOLE:
            if type(replica) is not Partition:
                return False
            if row.leader == self._node_id and replica.leader_epoch != row.leader_epoch:
                replica.log.leader_epochs.assign(row.leader_epoch, replica.log.log_end_offset)
                replica.leader_epoch = row.leader_epoch
            return True
        if role is Role.FOLLOWER or replica.leader_epoch != row.leader_epoch:
            return False
        from kwire.broker.replica.leader_partition import LeaderPartition

        if not isinstance(replica, LeaderPartition):
            return False
        replica.update(row)
        return True

    def _as(
        self, role: Role, topic: TopicImage, index: int, opened: PartitionLog, watermark: int
    ) -> Hosted:
        """The object for a role; a leader's epoch begins at the log's end."""
        row, place = topic.partitions[index], (topic.name, index, topic.topic_id, opened)
        if role is Role.FOLLOWER:
            from kwire.broker.replica.follower_partition import FollowerPartition

            return FollowerPartition(*place, row.leader, row.leader_epoch, watermark)
        opened.leader_epochs.assign(row.leader_epoch, opened.log_end_offset)
        opened.gap_at = -1  # no other replica has more records
        led: Partition
        if role is Role.LEADER:
            from kwire.broker.replica.leader_partition import LeaderPartition

            if row.is_recovering:
                log.warning(_UNCLEAN, opened.name, opened.log_end_offset)
            led = LeaderPartition(
                *place,
                row.leader_epoch,
                self._flusher,
                self._node_id,
                row,
                updates=self.in_sync_updates(),
                high_watermark=watermark,
            )
        else:
            led = Partition(*place, row.leader_epoch, self._flusher)
        led.configure(opened.config)
        if opened.flush_is_due:  # the flush reports only to the follower's object, which has ended
            self._flusher.demand(led)
        return led

    def host(self, replica: Hosted) -> None:
        """Give a partition a new role, and note that it has moved."""
        super().host(replica)
        if not isinstance(replica, Partition):
            self._moved[replica] = None

    def end_role(self, key: tuple[str, int]) -> Hosted | None:
        """End the role of a partition, and note that it has moved."""
        ended = super().end_role(key)
        if ended is not None and not isinstance(ended, Partition):
            self._moved[ended] = None
        return ended

    async def _configure(self, image: MetadataImage, touched: Touched) -> None:
        """Give each partition of a topic with changed settings the new settings, once."""
        done = 0
        for name in image.topics_by_name if touched.configs is None else touched.configs:
            topic = image.topics_by_name.get(name)
            replicas = [] if topic is None else self.of_topic(topic.topic_id)
            if not replicas:
                continue  # the topic is being created, or its partitions are offline
            config = self._log_config(name)
            for replica in replicas:
                replica.log.update_config(config)
                self._set_up(replica, config)
                done += 1
                if done % PARTITIONS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()

    def _set_up(self, replica: Hosted, config: LogConfig) -> None:
        """Apply the settings of a partition that concern more than its log."""
        if isinstance(replica, Partition):
            replica.configure(config)
        if config.compact:
            self.compacts.set()
