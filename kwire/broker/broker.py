"""The running broker: what handlers ask for partitions, settings and changes of metadata.

Rules:

- The image changes only by following the store. Whoever commits a change waits until this broker
  has followed it, so that its answer is true when it leaves.
- A partition's log is opened before the partition is served, and closed after it was taken out.
- Time and chance come in through ``now_ms`` and ``random``.
- Groups, transactional ids and compaction are loaded when there is something for them: at the start
  where their topics exist, else with the first request for one, or the first log to be compacted.
"""

import logging
import random as random_module
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import trio

from kwire.broker.cold_reads import ColdReads
from kwire.broker.fetch_sessions import FetchSessions
from kwire.broker.flusher import Flusher
from kwire.broker.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kwire.broker.partition import Partition
from kwire.budget.threads import Threads
from kwire.config.broker import BrokerConfig
from kwire.config.settings import BROKER, Value, settings
from kwire.config.topic import topic_settings
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
    apply,
)
from kwire.metadata.image import ConfigResourceType, MetadataImage, TopicImage
from kwire.metadata.store import MetadataStore, RevisionConflict

if TYPE_CHECKING:
    from kwire.broker.compaction import Compaction
    from kwire.broker.groups import Groups
    from kwire.broker.producer_ids import ProducerIds
    from kwire.broker.transactions import Transactions

_Coordinators = TypeVar("_Coordinators", "Groups", "Transactions")

log = logging.getLogger(__name__)

LOGS_PER_TURN = 32
"""How many logs of a new topic a thread makes before they are served."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Broker:
    """One broker, made from its settings, its logs and its metadata store."""

    def __init__(
        self,
        config: BrokerConfig,
        log_manager: LogManager,
        store: MetadataStore,
        image: MetadataImage,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
        random: random_module.Random | None = None,
    ) -> None:
        self.config = config
        self.log_manager = log_manager
        self.now_ms = now_ms
        self.random = random or random_module.Random()
        self.node_id = config.integer("node.id")
        self.advertised_listeners = config.advertised_listeners()
        self.image = image
        self.settings: Mapping[str, Value] = config
        self.bugs: list[Exception] = []
        self.is_stopping = False
        self.do_afterwards: Callable[[Callable[[], object]], object] = lambda do: do()
        self.fetch_sessions = FetchSessions(self.random)
        self.threads = Threads()
        self.flusher = Flusher(now_ms, self.threads.syncing)
        self.cold_reads = ColdReads(self.threads.cold_reads)
        self.background: trio.Nursery
        self.compaction: Compaction
        self.compacts = trio.Event()
        self._coordinators: list[Groups | Transactions] = []
        self._store = store
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], bool] = {}
        self._followed = trio.Condition()
        self._followed_revision = image.revision
        self._refresh_settings()
        for topic in image.topics_by_name.values():
            log_config = self._log_config(topic.name)
            for index in self._missing(topic):
                opened = self._open_log(topic, index, log_config, False)
                self._serve_partition(topic, index, opened, is_new=False)

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters of base64."""
        return self.image.cluster_id

    @cached_property
    def producer_ids(self) -> "ProducerIds":
        """The producer ids that it gives out."""
        from kwire.broker.producer_ids import ProducerIds

        return ProducerIds(self.commit)

    @cached_property
    def groups(self) -> "Groups":
        """Its groups."""
        from kwire.broker.groups import Groups

        return self._begin(Groups(self))

    @cached_property
    def transactions(self) -> "Transactions":
        """Its transactional ids."""
        from kwire.broker.transactions import Transactions

        return self._begin(Transactions(self))

    def _begin(self, coordinators: _Coordinators) -> _Coordinators:
        self.background.start_soon(coordinators.run)
        self._coordinators.append(coordinators)
        if self.is_stopping:
            coordinators.close()
        return coordinators

    def begin(self, background: trio.Nursery) -> None:
        """Start the tasks of this broker, which end with ``background``."""
        self.background = background
        background.start_soon(self.follow)
        background.start_soon(self.flusher.run)
        for topic, home in ((OFFSETS_TOPIC, "groups"), (TRANSACTIONS_TOPIC, "transactions")):
            if topic in self.image.topics_by_name:
                getattr(self, home)

    def stop(self) -> None:
        """Tell whoever asks for a coordinator, and whoever waits for one, to find another."""
        self.is_stopping = True
        self.threads.close()
        for coordinators in self._coordinators:
            coordinators.close()

    async def forget_deleted_topics(self) -> None:
        """Drop the offsets that groups have committed for topics which are gone."""
        if "groups" in vars(self):
            await self.groups.forget_deleted_topics()

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR for one that is offline.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None and partition.log.health.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
        if partition is None:
            if (topic, index) in self._offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic}-{index} here"
            )
        return partition

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None where ``partition`` has an error to tell."""
        partition = self._partitions.get((topic, index))
        if partition is None or partition.log.health.failure is not None:
            return None
        return partition

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition is this broker's and can't be served."""
        partition = self._partitions.get((topic, index))
        return (topic, index) in self._offline if partition is None else partition.is_offline

    def leader_of(self, topic: TopicImage, index: int) -> int:
        """The node that leads a partition, -1 where it is offline."""
        leader = topic.partitions[index].leader
        if leader == self.node_id and self.is_offline(topic.name, index):
            return -1
        return leader

    def offline_replicas(self, topic: TopicImage, index: int) -> list[int]:
        """The replicas of a partition that are offline, as far as this broker knows: its own."""
        return [self.node_id] if self.is_offline(topic.name, index) else []

    def topic_by_id(self, topic_id: bytes) -> TopicImage:
        """A topic by its id; KafkaError (UNKNOWN_TOPIC_ID) where there is none."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """A partition by topic id; KafkaError (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)."""
        return self.partition(self.topic_by_id(topic_id).name, index)

    def setting(self, name: str) -> Value:
        """The effective value of a broker setting, dynamic changes included."""
        return self.settings[name]

    def integer(self, name: str) -> int:
        """The effective value of a broker setting that is a whole number."""
        value = self.settings[name]
        assert isinstance(value, int)
        return value

    def topic_settings(self, topic: str) -> dict[str, Value]:
        """The effective settings of a topic."""
        overrides = self.image.config(ConfigResourceType.TOPIC, topic)
        return topic_settings(overrides, self.settings)

    async def commit(self, decide: Callable[[MetadataImage], Sequence[Change]]) -> None:
        """Make a controller's decision so: decide, commit, and follow it.

        ``decide`` is asked again if somebody else committed meanwhile; what it raises is passed on.
        """
        while True:
            image = self.image
            changes = decide(image)
            if not changes:
                return
            try:
                revision = await self._store.commit(image.revision, changes)
            except RevisionConflict:
                revision = image.revision + 1
                await self._wait_followed(revision)
                continue
            await self._wait_followed(revision)
            return

    async def follow(self) -> None:
        """Apply every commit to this broker, for ever."""
        async for commit in self._store.watch(self.image.revision):
            self.image = apply(self.image, commit.changes, commit.revision)
            for change in commit.changes:
                await self._publish(change)
            self._followed_revision = commit.revision
            async with self._followed:
                self._followed.notify_all()

    async def _wait_followed(self, revision: int) -> None:
        async with self._followed:
            while self._followed_revision < revision:
                await self._followed.wait()

    async def _publish(self, change: Change) -> None:
        """Make one change of metadata felt on this broker."""
        if isinstance(change, TopicCreated):
            await self._create_partitions(change.topic)
        elif isinstance(change, PartitionsAdded):
            await self._create_partitions(self.image.topics_by_id[change.topic_id])
        elif isinstance(change, TopicDeleted):
            await self._delete_partitions(change.topic_id)
        elif isinstance(change, ConfigChanged):
            self._publish_config(change)

    def _publish_config(self, change: ConfigChanged) -> None:
        if change.resource_type == ConfigResourceType.BROKER:
            self._refresh_settings()
            partitions = list(self._partitions.values())
        elif change.resource_type == ConfigResourceType.TOPIC:
            partitions = [p for p in self._partitions.values() if p.topic == change.resource_name]
        else:
            return
        for partition in partitions:
            self._configure(partition)

    def _configure(self, partition: Partition) -> None:
        config = self._log_config(partition.topic)
        partition.log.update_config(config)
        self._set_up(partition, config)

    def _set_up(self, partition: Partition, config: LogConfig) -> None:
        """What a partition's settings mean beyond its log."""
        partition.min_isr = config.min_insync_replicas
        if config.compact:
            self.compacts.set()

    def _log_config(self, topic: str) -> LogConfig:
        expiration_ms = self.integer("producer.id.expiration.ms")
        return LogConfig.from_settings(self.topic_settings(topic), expiration_ms)

    def _refresh_settings(self) -> None:
        """Dynamic values of this broker count first, then those of all brokers, then the file."""
        known = settings(BROKER)
        dynamic = dict(self.image.config(ConfigResourceType.BROKER, ""))
        dynamic.update(self.image.config(ConfigResourceType.BROKER, str(self.node_id)))
        values = dict(self.config)
        values.update(
            (name, known[name].parse(text)) for name, text in dynamic.items() if name in known
        )
        self.settings = values

    def put_strays_aside(self) -> None:
        """Put the logs aside whose topics are gone: deleted while their directory was offline."""
        self.log_manager.put_strays_aside(self._partitions)

    async def retry_offline(self) -> None:
        """Try to open partitions again whose logs couldn't be made, for want of room perhaps."""
        for (name, index), is_new in list(self._offline.items()):
            topic = self.image.topics_by_name.get(name)
            if topic is None:
                continue
            config = self._log_config(name)
            opened = await self.threads.logs.run(self._open_log, topic, index, config, is_new)
            if (name, index) in self._offline:  # it may have been deleted meanwhile
                self._serve_partition(topic, index, opened, is_new=is_new)

    def _missing(self, topic: TopicImage) -> list[int]:
        """The partitions that belong to this broker and that it doesn't serve."""
        return [
            index
            for index, image in enumerate(topic.partitions)
            if (topic.name, index) not in self._partitions and self.node_id in image.replicas
        ]

    async def _create_partitions(self, topic: TopicImage) -> None:
        """Make the logs of new partitions, in a thread that waits for the disk, and serve them."""
        config = self._log_config(topic.name)
        missing = self._missing(topic)

        def open_logs(indexes: list[int]) -> list[PartitionLog | KafkaError]:
            return [self._open_log(topic, index, config, True) for index in indexes]

        for start in range(0, len(missing), LOGS_PER_TURN):
            indexes = missing[start : start + LOGS_PER_TURN]
            opened = await self.threads.logs.run(open_logs, indexes)
            for index, one in zip(indexes, opened, strict=True):
                self._serve_partition(topic, index, one, is_new=True)

    def _open_log(
        self, topic: TopicImage, index: int, config: LogConfig, is_new: bool
    ) -> PartitionLog | KafkaError:
        """The log of a partition, or why there is none; may be called in a thread.

        Its leader epoch is written down here and not by the first append, which waits for no disk.
        """
        try:
            opened = self.log_manager.get_or_create(
                topic.name, index, topic.topic_id, config, self.now_ms(), is_new=is_new
            )
            self.log_manager.begin_epoch(opened, topic.partitions[index].leader_epoch)
            if opened.flush_is_due:  # what a crash left unflushed would be seen, and might be lost
                opened.flush(self.now_ms())
            return opened
        except KafkaError as error:
            return error

    def _serve_partition(
        self, topic: TopicImage, index: int, opened: PartitionLog | KafkaError, *, is_new: bool
    ) -> None:
        """Serve a partition, or note that it is offline."""
        key = (topic.name, index)
        if isinstance(opened, KafkaError):
            if key not in self._offline:
                log.error("%s-%d is offline: %s", *key, opened.message)
                self._offline[key] = is_new
            return
        if self._offline.pop(key, None) is not None:
            log.warning("%s-%d is online now", *key)
        epoch = topic.partitions[index].leader_epoch
        partition = Partition(*key, topic.topic_id, opened, epoch, self.flusher)
        self._set_up(partition, opened.config)
        self._partitions[key] = partition

    async def _delete_partitions(self, topic_id: bytes) -> None:
        doomed = [p for p in self._partitions.values() if p.topic_id == topic_id]
        topics = self.image.topics_by_name
        self._offline = {key: new for key, new in self._offline.items() if key[0] in topics}
        for partition in doomed:
            del self._partitions[partition.topic, partition.index]
            partition.is_deleted = True
            partition.wake()
        await self.threads.logs.run(self._delete_logs, doomed)

    def _delete_logs(self, doomed: list[Partition]) -> None:
        """Put logs out of the way; called in a thread, for it waits for the disk."""
        for partition in doomed:
            self.log_manager.delete(partition.topic, partition.index, self.now_ms())

    def partitions(self) -> list[Partition]:
        """Every partition on this broker."""
        return list(self._partitions.values())
