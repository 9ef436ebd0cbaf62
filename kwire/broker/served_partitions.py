"""The partitions of this broker: their logs are opened, served, put offline, and deleted here.

Rules:

- A partition is served after its log was opened, and its log is closed after the partition was
  taken out of service.
- A partition whose log can't be opened is offline. The broker tries again until it succeeds.
- Threads do the work that waits for the disk. A change of very many partitions is made in small
  parts, each of which takes a few milliseconds of the event loop.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from typing import TypeAlias

import trio

from kwire.broker.commits import CHANGES_PER_TURN
from kwire.broker.flusher import Flusher
from kwire.broker.partition import Partition
from kwire.budget.threads import Kind
from kwire.clock import Clock
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsAdded,
    PartitionsChanged,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.image import ConfigResourceType, MetadataImage, TopicImage

log = logging.getLogger(__name__)

LOGS_PER_TURN = 32
"""How many logs a thread opens or deletes before other tasks have their turn."""

PARTITIONS_PER_TURN = 200
"""How many partitions get new settings before other tasks have their turn."""

LogConfigs: TypeAlias = Callable[[str], LogConfig]
"""Gives the effective settings of a topic's logs by its name; a thread may call it."""

_Missing: TypeAlias = tuple[TopicImage, int]
"""A partition that has to be made: its topic and its index."""


class Gone:
    """What deleted partitions had counted, so that the totals of a broker never shrink."""

    def __init__(self) -> None:
        self.messages_in = self.bytes_in = self.bytes_out = 0

    def add(self, partition: Partition) -> None:
        """Add the counters of a partition that is deleted."""
        self.messages_in += partition.messages_in
        self.bytes_in += partition.bytes_in
        self.bytes_out += partition.bytes_out


class ServedPartitions:
    """The partitions of one broker; ``compacts`` is set when the first compacted log is served."""

    def __init__(
        self,
        node_id: int,
        log_manager: LogManager,
        flusher: Flusher,
        log_config: LogConfigs,
        clock: Clock,
        threads: Kind,
    ) -> None:
        self.compacts = trio.Event()
        self.gone = Gone()
        self._image = MetadataImage()
        self._node_id = node_id
        self._log_manager = log_manager
        self._flusher = flusher
        self._log_config = log_config
        self._clock = clock
        self._threads = threads
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._by_topic: dict[bytes, list[Partition]] = {}
        self._offline: dict[tuple[str, int], bool] = {}

    def offline(self) -> list[tuple[str, int]]:
        """The partitions whose logs can't be opened."""
        return list(self._offline)

    def open_all(self, image: MetadataImage) -> None:
        """Open and serve every partition of an image, when the broker starts."""
        self._image = image
        for topic in image.topics_by_name.values():
            config = self._log_config(topic.name)
            for index in self._missing(topic):
                opened = self._open_log(topic, index, config, is_new=False)
                self._serve(topic, index, opened, is_new=False)

    # What handlers ask for

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER if it is another
        broker's, or KAFKA_STORAGE_ERROR if it is offline.
        """
        partition = self._partitions.get((topic, index))
        if partition is not None and partition.log.health.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
        if partition is None:
            if (topic, index) in self._offline:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} is offline")
            if self._image.partition(topic, index) is not None:
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {topic}-{index}"
                )
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {topic}-{index} here"
            )
        return partition

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None where ``partition`` raises an error."""
        partition = self._partitions.get((topic, index))
        if partition is None or partition.log.health.failure is not None:
            return None
        return partition

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition belongs to this broker and can't be served."""
        partition = self._partitions.get((topic, index))
        return (topic, index) in self._offline if partition is None else partition.is_offline

    def all(self) -> list[Partition]:
        """Every partition that is served."""
        return list(self._partitions.values())

    # Changes of metadata

    async def publish(self, image: MetadataImage, changes: Sequence[Change]) -> None:
        """Apply the changes that led to an image to the partitions of this broker."""
        self._image = image
        for kind, alike in groupby(changes, type):
            if kind is TopicCreated or kind is PartitionsAdded:
                await self._create(self._missing_of(image, alike))
            elif kind is TopicDeleted:
                await self._delete(image, alike)
            elif kind is ConfigChanged:
                await self._configure(image, alike)
            elif kind is PartitionsChanged:
                await self._begin_epochs(image, alike)

    async def _create(self, missing: Iterator[_Missing]) -> None:
        """Make the logs of new partitions in a thread, and serve the partitions."""
        while some := list(islice(missing, LOGS_PER_TURN)):
            opened = await self._threads.run(self._open_new, some)
            for (topic, index), one in zip(some, opened, strict=True):
                self._serve(topic, index, one, is_new=True)

    def _missing_of(self, image: MetadataImage, changes: Iterable[Change]) -> Iterator[_Missing]:
        """The partitions to make, for topics that are new or have more partitions now."""
        topic_ids: dict[bytes, None] = {}
        for change in changes:
            if isinstance(change, TopicCreated):
                topic_ids[change.topic.topic_id] = None
            elif isinstance(change, PartitionsAdded):
                topic_ids[change.topic_id] = None
        for topic_id in topic_ids:
            topic = image.topics_by_id.get(topic_id)
            if topic is not None:  # a later change of the same commit may have deleted it
                yield from ((topic, index) for index in self._missing(topic))

    def _missing(self, topic: TopicImage) -> list[int]:
        """The partitions that belong to this broker and are not served yet."""
        return [
            index
            for index, image in enumerate(topic.partitions)
            if (topic.name, index) not in self._partitions
            and self._node_id in image.replicas
            and image.isr  # nobody has the records of a partition without an ISR
        ]

    def _open_new(self, missing: Sequence[_Missing]) -> list[PartitionLog | KafkaError]:
        """The log or the error of each new partition; called in a thread."""
        configs = {name: self._log_config(name) for name in {topic.name for topic, _ in missing}}
        return [
            self._open_log(topic, index, configs[topic.name], is_new=True)
            for topic, index in missing
        ]

    async def _delete(self, image: MetadataImage, changes: Iterable[Change]) -> None:
        """Take the partitions of deleted topics out of service, then delete their logs."""
        topics = image.topics_by_name
        self._offline = {key: new for key, new in self._offline.items() if key[0] in topics}
        for change in changes:
            assert isinstance(change, TopicDeleted)
            doomed = self._by_topic.pop(change.topic_id, [])
            for start in range(0, len(doomed), LOGS_PER_TURN):
                some = doomed[start : start + LOGS_PER_TURN]
                for partition in some:
                    del self._partitions[partition.topic, partition.index]
                    partition.delete()
                    self.gone.add(partition)
                await self._threads.run(self._delete_logs, some)

    async def _begin_epochs(self, image: MetadataImage, changes: Iterable[Change]) -> None:
        """Begin the new epochs of partitions that this broker leads.

        A partition without a leader is served on: nobody else has its records. One that this broker
        doesn't serve yet begins anew: somebody has accepted that its records are lost.
        """
        begun: list[tuple[Partition, int]] = []
        led: list[_Missing] = []
        for change in changes:
            assert isinstance(change, PartitionsChanged)
            topic = image.topics_by_id.get(change.topic_id)
            if topic is None:
                continue  # a later change of the same commit has deleted it
            for index, row in change.rows:
                partition = self._partitions.get((topic.name, index))
                if row.leader == self._node_id:
                    if partition is not None:
                        begun.append((partition, row.leader_epoch))
                    elif (topic.name, index) not in self._offline:
                        led.append((topic, index))
        await self._create(iter(led))
        for start in range(0, len(begun), LOGS_PER_TURN):
            some = begun[start : start + LOGS_PER_TURN]
            await self._threads.run(self._note_epochs, some)
            for partition, epoch in some:
                partition.leader_epoch = epoch

    def _note_epochs(self, begun: list[tuple[Partition, int]]) -> None:
        """Write the new epochs; called in a thread. A log that can't be written goes offline."""
        for partition, epoch in begun:
            with suppress(KafkaError):
                self._log_manager.begin_epoch(partition.log, epoch)

    def _delete_logs(self, doomed: list[Partition]) -> None:
        """Rename the logs out of the way; called in a thread, because this waits for the disk."""
        for partition in doomed:
            self._log_manager.delete(partition.topic, partition.index, self._clock.steady_ms())

    async def _configure(self, image: MetadataImage, changes: Iterable[Change]) -> None:
        """Give each changed partition its new settings, once."""
        names: dict[str, None] = {}
        for number, change in enumerate(changes, 1):
            if number % CHANGES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            assert isinstance(change, ConfigChanged)
            if change.resource_type == ConfigResourceType.BROKER:
                names = dict.fromkeys(image.topics_by_name)
                break
            if change.resource_type == ConfigResourceType.TOPIC:
                names[change.resource_name] = None
        done = 0
        for name in names:
            topic = image.topics_by_name.get(name)
            partitions = [] if topic is None else self._by_topic.get(topic.topic_id, [])
            if not partitions:
                continue  # the topic is being created, or its partitions are offline
            config = self._log_config(name)
            for partition in partitions:
                partition.log.update_config(config)
                self._set_up(partition, config)
                done += 1
                if done % PARTITIONS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()

    # Opening and serving

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
        """Put aside the logs of topics that were deleted while their directory was offline."""
        known = set(self._partitions)
        for topic in self._image.topics_by_name.values():
            known.update((topic.name, index) for index in range(len(topic.partitions)))
        self._log_manager.put_strays_aside(known)

    def _open_log(
        self, topic: TopicImage, index: int, config: LogConfig, *, is_new: bool
    ) -> PartitionLog | KafkaError:
        """The log of a partition, or the error that prevents it; a thread may call this.

        The leader epoch is written here and not by the first append, which waits for no disk.
        """
        try:
            opened = self._log_manager.get_or_create(
                topic.name, index, topic.topic_id, config, self._clock.now_ms(), is_new=is_new
            )
            self._log_manager.begin_epoch(opened, topic.partitions[index].leader_epoch)
            if opened.flush_is_due:  # consumers would see unflushed records that may be lost
                opened.flush(self._clock.steady_ms())
            return opened
        except KafkaError as error:
            return error

    def _serve(
        self, topic: TopicImage, index: int, opened: PartitionLog | KafkaError, *, is_new: bool
    ) -> None:
        """Serve a partition, or note that it is offline.

        An offline partition may be tried again while a deleted topic's name is created anew. The
        first of the two that succeeds counts, because fetches may wait for it already.
        """
        key = (topic.name, index)
        if key in self._partitions:
            return
        if isinstance(opened, KafkaError):
            if key not in self._offline:
                log.error("%s-%d is offline: %s", *key, opened.message)
                self._offline[key] = is_new
            return
        if self._offline.pop(key, None) is not None:
            log.warning("%s-%d is online now", *key)
        epoch = topic.partitions[index].leader_epoch
        partition = Partition(*key, topic.topic_id, opened, epoch, self._flusher)
        self._set_up(partition, opened.config)
        self._partitions[key] = partition
        self._by_topic.setdefault(topic.topic_id, []).append(partition)

    def _set_up(self, partition: Partition, config: LogConfig) -> None:
        """Apply the settings of a partition that concern more than its log."""
        partition.configure(config)
        if config.compact:
            self.compacts.set()
