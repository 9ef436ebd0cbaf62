"""What becomes of a broker's replicas with each image: opened, led, followed, put offline, deleted.

Rules:

- The broker compares the image with its replicas; a change only says which replicas to compare. So
  changes that are missed, merged or seen twice do no harm.
- Roles change first, in memory, before anything waits for a disk (``take_roles``). A new role is a
  new object; requests that wait for the old object look for the new one. Exceptions are a sole
  replica's new epoch, and a row that leaves a leader its epoch.
- A partition is served after its log was opened, and its log is closed after the partition was
  taken out of service.
- The broker tries again to open a log that can't be opened, until it succeeds.
- Threads do the work that waits for the disk. A change of very many partitions is made in small
  parts, each of which takes a few milliseconds of the event loop.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.hosted_partitions import Hosted, HostedPartitions
from kwire.broker.partition import Partition
from kwire.broker.roles import Role, Touched, may_begin, role_of, touched_by
from kwire.budget.threads import Kind
from kwire.clock import Clock
from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage, PartitionImage, TopicImage

if TYPE_CHECKING:
    from kwire.broker.follower_partition import FollowerPartition
    from kwire.broker.leader_partition import InSyncUpdates

log = logging.getLogger(__name__)

_UNCLEAN = (
    "%s is led by a replica that may lack records (unclean election): records from offset %d on, "
    "which were acknowledged before, are lost"
)

LOGS_PER_TURN = 32
"""How many logs a thread opens or deletes before other tasks have their turn."""

PARTITIONS_PER_TURN = 200
"""How many partitions get new settings or roles before other tasks have their turn."""

LogConfigs: TypeAlias = Callable[[str], LogConfig]
"""Gives the effective settings of a topic's logs by its name; a thread may call it."""

_Missing: TypeAlias = tuple[TopicImage, int]
"""A partition that has to be made: its topic and its index."""


class ServedPartitions(HostedPartitions):
    """The partitions of one broker; ``in_sync_updates`` is for those with followers."""

    def __init__(
        self,
        node_id: int,
        log_manager: LogManager,
        flusher: Flusher,
        log_config: LogConfigs,
        clock: Clock,
        threads: Kind,
    ) -> None:
        super().__init__(node_id)
        self.in_sync_updates: Callable[[], InSyncUpdates | None] = lambda: None
        self._log_manager = log_manager
        self._flusher = flusher
        self._log_config = log_config
        self._clock = clock
        self._threads = threads
        self._moved: dict[FollowerPartition, None] = {}
        self._given_away: dict[TopicPartition, Hosted] = {}

    def open_all(self, image: MetadataImage) -> None:
        """Open and serve every partition of an image, when the broker starts."""
        self._see(image)
        for topic in image.topics_by_name.values():
            config = self._log_config(topic.name)
            for index in self._missing(topic):
                opened = self._open_log(topic, index, config, is_new=False)
                self._serve(topic, index, opened, is_new=False)

    def moved_followers(self) -> "list[FollowerPartition]":
        """The followed partitions that began, ended or changed leader or epoch since the last call.

        Those with ``is_deleted`` are followed no more.
        """
        moved, self._moved = list(self._moved), {}
        return moved

    # Roles

    async def take_roles(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        """Have replicas whose logs are open be what the image says; no disk is waited for.

        Settings come first: the controller compares a smaller ISR with the newest
        min.insync.replicas when it decides which replicas are eligible to lead.
        """
        self._see(image)
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
                self._settle(topic, index, replica)
                done += 1
                if done % PARTITIONS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()

    async def _at_rest(self, topic: str, index: int) -> Hosted | None:
        """A replica, once no thread cuts its log."""
        while True:
            replica = self.replica(topic, index)
            if replica is None or isinstance(replica, Partition) or replica.cutting is None:
                return replica
            await replica.cutting.wait()

    def _settle(self, topic: TopicImage, index: int, replica: Hosted) -> None:
        """Have a replica be what its row says; if it has no role, its log is deleted later."""
        row = topic.partitions[index]
        role = role_of(row, self._node_id)
        if role is Role.NONE:
            self._end((topic.name, index))
            self._given_away[topic.name, index] = replica
            return
        if self._stays(replica, role, row):
            return
        self._host(self._as(role, topic, index, replica.log, replica.high_watermark))

    def _stays(self, replica: Hosted, role: Role, row: PartitionImage) -> bool:
        """Whether the object of a replica is right; it takes what is new in its row."""
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
        from kwire.broker.leader_partition import LeaderPartition

        if not isinstance(replica, LeaderPartition):
            return False
        replica.update(row)
        return True

    def _as(
        self, role: Role, topic: TopicImage, index: int, opened: PartitionLog, watermark: int
    ) -> Hosted:
        """The object of a role; a leader's epoch begins at the log's end."""
        row, place = topic.partitions[index], (topic.name, index, topic.topic_id, opened)
        if role is Role.FOLLOWER:
            from kwire.broker.follower_partition import FollowerPartition

            return FollowerPartition(*place, row.leader, row.leader_epoch, watermark)
        opened.leader_epochs.assign(row.leader_epoch, opened.log_end_offset)
        opened.gap_at = -1  # nobody has more
        led: Partition
        if role is Role.LEADER:
            from kwire.broker.leader_partition import LeaderPartition

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
        return led

    def _host(self, replica: Hosted) -> None:
        super()._host(replica)
        if not isinstance(replica, Partition):
            self._moved[replica] = None

    def _end(self, key: tuple[str, int]) -> Hosted | None:
        ended = super()._end(key)
        if ended is not None and not isinstance(ended, Partition):
            self._moved[ended] = None
        return ended

    # Logs

    async def publish(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        """Open, make and delete logs as an image asks, after ``take_roles``."""
        self._see(image)
        touched = touched_by(changes)
        for topic_id in touched.deleted:
            self._offline = {
                key: new for key, new in self._offline.items() if key[0] in image.topics_by_name
            }
            await self._delete(self.of_topic(topic_id))
        for topic_id, indexes in touched.partitions.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and indexes is not None:
                await self._delete(self._removed(topic, indexes))
        await self._create(self._missing_of(image, touched))

    def _removed(self, topic: TopicImage, indexes: Iterable[int]) -> list[Hosted]:
        """The replicas here that have been given to other brokers."""
        removed = []
        for index in indexes:
            if role_of(topic.partitions[index], self._node_id) is Role.NONE:
                self._offline.pop((topic.name, index), None)
                given_away = self._given_away.pop((topic.name, index), None)
                replica = given_away or self.replica(topic.name, index)
                if replica is not None and replica.topic_id == topic.topic_id:
                    removed.append(replica)
        return removed

    async def _delete(self, doomed: Sequence[Hosted]) -> None:
        """Take replicas out of service, then delete their logs."""
        for start in range(0, len(doomed), LOGS_PER_TURN):
            some = doomed[start : start + LOGS_PER_TURN]
            for replica in some:
                await self._at_rest(replica.topic, replica.index)
                self._end((replica.topic, replica.index))
            await self._threads.run(self._delete_logs, some)

    def _delete_logs(self, doomed: Sequence[Hosted]) -> None:
        """Rename the logs out of the way; called in a thread, because this waits for the disk."""
        for replica in doomed:
            self._log_manager.delete(replica.topic, replica.index, self._clock.steady_ms())

    def _missing_of(self, image: MetadataImage, touched: Touched) -> Iterator[_Missing]:
        """The partitions among the touched ones whose logs have to be made."""
        for topic_id, indexes in touched.partitions.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                continue  # a later change of the same commit has deleted it
            for index in self._missing(topic):
                if indexes is None or (
                    index in indexes and (topic.name, index) not in self._offline
                ):
                    yield topic, index

    def _missing(self, topic: TopicImage) -> list[int]:
        """The partitions that belong to this broker and aren't here yet."""
        return [
            index
            for index, row in enumerate(topic.partitions)
            if self._node_id in row.replicas
            and may_begin(row, self._node_id)
            and self.replica(topic.name, index) is None
        ]

    async def _create(self, missing: Iterator[_Missing]) -> None:
        """Make the logs of new partitions in a thread, and serve the partitions."""
        while some := list(islice(missing, LOGS_PER_TURN)):
            opened = await self._threads.run(self._open_new, some)
            for (topic, index), one in zip(some, opened, strict=True):
                self._serve(topic, index, one, is_new=True)

    def _open_new(self, missing: Sequence[_Missing]) -> list[PartitionLog | KafkaError]:
        """The log or the error of each new partition; called in a thread."""
        configs = {name: self._log_config(name) for name in {topic.name for topic, _ in missing}}
        return [
            self._open_log(topic, index, configs[topic.name], is_new=True)
            for topic, index in missing
        ]

    async def _configure(self, image: MetadataImage, touched: Touched) -> None:
        """Give each partition of topics with changed settings its new ones, once."""
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

    async def retry_offline(self, image: MetadataImage) -> None:
        """Try again to open partitions whose logs couldn't be made, perhaps for lack of space."""
        for (name, index), is_new in list(self._offline.items()):
            topic = image.topics_by_name.get(name)
            if topic is None:
                continue
            config = self._log_config(name)
            opened = await self._threads.run(
                partial(self._open_log, topic, index, config, is_new=is_new)
            )
            if (name, index) in self._offline:  # a deletion may have removed it meanwhile
                self._serve(topic, index, opened, is_new=is_new)

    def put_strays_aside(self) -> None:
        """Put aside the logs that no longer belong to this broker, when it has opened the others.

        While it was down, or their directory offline, a topic was deleted or a replica moved away.
        """
        own = {
            (topic.name, index): topic.topic_id
            for topic in self._image.topics_by_name.values()
            for index, row in enumerate(topic.partitions)
            if self._node_id in row.replicas
        }
        self._log_manager.put_strays_aside(own)

    def _open_log(
        self, topic: TopicImage, index: int, config: LogConfig, *, is_new: bool
    ) -> PartitionLog | KafkaError:
        """The log of a partition, or the error that prevents it; a thread may call this.

        A leader's epoch is written here and not by the first append, which waits for no disk.
        """
        row = topic.partitions[index]
        try:
            opened = self._log_manager.get_or_create(
                topic.name, index, topic.topic_id, config, self._clock.now_ms(), is_new=is_new
            )
            if role_of(row, self._node_id) is not Role.FOLLOWER:
                self._log_manager.begin_epoch(opened, row.leader_epoch)
            if opened.flush_is_due:  # consumers would see unflushed records that may be lost
                opened.flush(self._clock.steady_ms())
            return opened
        except KafkaError as error:
            return error

    def _serve(
        self, topic: TopicImage, index: int, opened: PartitionLog | KafkaError, *, is_new: bool
    ) -> None:
        """Take the role of a partition, or note that it is offline.

        An offline partition may be tried again while a deleted topic's name is created anew. The
        first of the two that succeeds counts, because fetches may wait for it already.
        """
        key = (topic.name, index)
        if self.replica(*key) is not None:
            return
        if isinstance(opened, KafkaError):
            if key not in self._offline:
                log.error("%s-%d is offline: %s", *key, opened.message)
                self._offline[key] = is_new
            return
        if self._offline.pop(key, None) is not None:
            log.warning("%s-%d is online now", *key)
        role = role_of(self._image.partition(*key) or topic.partitions[index], self._node_id)
        watermark = 0 if role is Role.SOLE else self._log_manager.high_watermark_before(opened)
        replica = self._as(role, topic, index, opened, watermark)
        self._set_up(replica, opened.config)
        self._host(replica)

    def _set_up(self, replica: Hosted, config: LogConfig) -> None:
        """Apply the settings of a partition that concern more than its log."""
        if isinstance(replica, Partition):
            replica.configure(config)
        if config.compact:
            self.compacts.set()
