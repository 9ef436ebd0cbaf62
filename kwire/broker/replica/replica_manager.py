"""Opens, creates, serves and deletes a broker's replicas, as each metadata image demands.

Rules:

- Roles change first, in memory (``replica_roles``). Replicas of deleted topics are out of service
  before the first of their logs is deleted.
- A commit with few logs is followed at once. The logs of a larger commit are a ``LogJob``: one task
  makes and deletes them in slices, and later commits are followed between two slices. So a client
  that creates one topic doesn't wait for another client's 200 topics. The smallest job comes first,
  and every eighth slice is the oldest job's.
- A slice looks at the newest image. So it makes no log of a partition that a later commit has
  deleted. If a new log has the name of a deleted topic's log, the old log is deleted first. One
  slice changes logs at a time.
- The logs that a job deletes are noted on the disk, so that the next start ends an interrupted job.
- The broker tries again to open a log that can't be opened, until it succeeds.
- Threads do the work that waits for the disk.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.replica.partition_registry import Hosted
from kwire.broker.replica.replica_roles import PARTITIONS_PER_TURN, LogConfigs, ReplicaRoles
from kwire.broker.replica.roles import Role, Touched, may_begin, role_of, touched_by
from kwire.budget.fair_queue import OLDEST_EVERY
from kwire.budget.thread_pool import ThreadPool
from kwire.clock import Clock
from kwire.errors import KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.leader_epochs import UNDEFINED
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.partition_log import PartitionLog
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage, TopicImage

log = logging.getLogger(__name__)

LOGS_PER_TURN = 8
"""How many logs a thread opens or deletes before other tasks have their turn. Some 20 ms, because
each log has to be synced."""

_T = TypeVar("_T")
_Missing: TypeAlias = tuple[TopicImage, int]
"""A partition that has to be made: its topic and its index."""


class LogJob:
    """The logs that one commit deletes and makes.

    After the last log ``done`` is set and ``at_end`` is called.
    """

    def __init__(self, doomed: list[Hosted], missing: list[_Missing]) -> None:
        self.doomed = doomed
        self.missing = missing
        self.at_end: Callable[[], object] = lambda: None
        self.done = trio.Event()

    @property
    def left(self) -> int:
        """How many logs are left."""
        return len(self.doomed) + len(self.missing)


def _take_slice(items: list[_T]) -> list[_T]:
    """Remove the items of one slice from the end of a list, and return them."""
    some = items[-LOGS_PER_TURN:]
    assert some  # a job without anything left would never be over
    del items[-LOGS_PER_TURN:]
    some.reverse()
    return some


class ReplicaManager(ReplicaRoles):
    """The partitions of one broker, and their logs. ``run_jobs`` has to run."""

    def __init__(
        self,
        node_id: int,
        log_manager: LogManager,
        flusher: Flusher,
        log_config: LogConfigs,
        clock: Clock,
        threads: ThreadPool,
    ) -> None:
        super().__init__(node_id, flusher, log_config)
        self._log_manager = log_manager
        self._clock = clock
        self._threads = threads
        self._changing, self._noting = trio.Lock(), trio.Lock()
        self._jobs: list[LogJob] = []
        self._asked = trio.Event()
        # Replicas out of service whose logs aren't deleted yet.
        self._doomed: dict[TopicPartition, Hosted] = {}

    def open_all(self, image: MetadataImage) -> None:
        """Open and serve every partition of an image that has a log, when the broker starts.

        A crash may have left a job unfinished. Logs that it hasn't made are a job again if they are
        many: otherwise the clients of all other topics would wait for them.
        """
        self._record_image(image)
        if any(data.has_deletions for data in self._log_manager.data_directories):
            from kwire.log.deletions import finish_deletions

            finish_deletions(self._log_manager, self._assigned_topic_ids, self._clock.steady_ms())
        missing: list[_Missing] = []
        for topic in image.topics_by_name.values():
            config = self._log_config(topic.name)
            for index in self._missing(topic):
                if (topic.name, index) in self._log_manager.logs:
                    opened = self._open_log(topic, index, config, is_new=False)
                    self.serve(topic, index, opened, is_new=False)
                else:
                    missing.append((topic, index))
        # A log that isn't there may be in a directory that is offline; then it isn't made.
        if len(missing) > LOGS_PER_TURN and not self._log_manager.failures:
            self._jobs.append(LogJob([], missing[::-1]))
            return
        for topic, index in missing:
            opened = self._open_log(topic, index, self._log_config(topic.name), is_new=False)
            self.serve(topic, index, opened, is_new=False)

    async def publish(self, image: MetadataImage, changes: Sequence[Change]) -> LogJob | None:
        """Open, make and delete logs as an image asks, after ``take_roles``.

        Returns the job that goes on with them; None if they are few and everything is done.
        """
        self._record_image(image)
        touched = touched_by(changes)
        for topic_id, indexes in touched.partitions.items():
            topic = image.topics_by_id.get(topic_id)
            if topic is not None and indexes is not None:
                await self._delete(await self._ended(self._removed(topic, indexes)))
        doomed: list[Hosted] = []
        for topic_id in touched.deleted:
            doomed += await self._ended(self.of_topic(topic_id))
        if touched.deleted:
            self._offline = {
                key: new for key, new in self._offline.items() if key[0] in image.topics_by_name
            }
        missing = await self._missing_of(image, touched)
        if len(doomed) + len(missing) <= LOGS_PER_TURN:
            await self._delete(doomed)
            if missing:
                async with self._changing:
                    await self._create(missing)
            return None
        for replica in doomed:
            self._doomed[replica.topic, replica.index] = replica
        if doomed:
            await self._note_deletions()
        job = LogJob(doomed[::-1], missing[::-1])
        self._jobs.append(job)
        self._asked.set()
        return job

    async def run_jobs(self, after_each: Callable[[], object]) -> None:
        """Do the jobs of large commits, for ever; calls ``after_each`` after each slice."""
        slices = 0
        while True:
            while self._jobs:
                slices += 1
                is_oldest = slices % OLDEST_EVERY == 0
                job = self._jobs[0] if is_oldest else min(self._jobs, key=lambda one: one.left)
                async with self._changing:
                    await self._do_slice(job)
                after_each()
                if not job.left:
                    self._jobs.remove(job)
                    job.at_end()
                    job.done.set()
            self._asked = trio.Event()
            await self._asked.wait()

    async def _do_slice(self, job: LogJob) -> None:
        """Do one slice of a job. Deletions come first, because they make room."""
        if not job.doomed:
            await self._create(_take_slice(job.missing))
            return
        doomed = [
            replica
            for replica in _take_slice(job.doomed)
            if self._doomed.get((replica.topic, replica.index)) is replica
        ]
        await self._threads.run(self._delete_logs, doomed)
        for replica in doomed:
            del self._doomed[replica.topic, replica.index]
        if not job.doomed:
            await self._note_deletions()

    async def _note_deletions(self) -> None:
        """Note on the disk which logs are still to be deleted; the newest note is the last."""
        from kwire.log.deletions import note_deletions

        async with self._noting:
            doomed = {key: replica.topic_id for key, replica in self._doomed.items()}
            await self._threads.run(note_deletions, self._log_manager, doomed)

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

    async def _ended(self, replicas: Sequence[Hosted]) -> Sequence[Hosted]:
        """Take replicas out of service."""
        for done, replica in enumerate(replicas, 1):
            await self._at_rest(replica.topic, replica.index)
            self.end_role((replica.topic, replica.index))
            if done % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        return replicas

    async def _delete(self, doomed: Sequence[Hosted]) -> None:
        """Delete the logs of replicas that are out of service."""
        for start in range(0, len(doomed), LOGS_PER_TURN):
            async with self._changing:
                some = doomed[start : start + LOGS_PER_TURN]
                await self._threads.run(self._delete_logs, some)

    def _delete_logs(self, doomed: Sequence[Hosted]) -> None:
        """Rename the logs out of the way; called in a thread, because this waits for the disk."""
        for replica in doomed:
            self._log_manager.delete(replica.topic, replica.index, self._clock.steady_ms())

    async def _missing_of(self, image: MetadataImage, touched: Touched) -> list[_Missing]:
        """The partitions among the touched ones whose logs have to be made."""
        found: list[_Missing] = []
        for done, (topic_id, indexes) in enumerate(touched.partitions.items(), 1):
            if done % PARTITIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                continue  # a later change of the same commit has deleted it
            found += [
                (topic, index)
                for index in self._missing(topic)
                if indexes is None
                or (index in indexes and (topic.name, index) not in self._offline)
            ]
        return found

    def _missing(self, topic: TopicImage) -> list[int]:
        """The partitions that belong to this broker and aren't here yet."""
        return [index for index in range(len(topic.partitions)) if self._is_missing(topic, index)]

    def _is_missing(self, topic: TopicImage, index: int) -> bool:
        row = topic.partitions[index]
        return (
            self._node_id in row.replicas
            and may_begin(row, self._node_id)
            and self.replica(topic.name, index) is None
        )

    async def _create(self, missing: Sequence[_Missing]) -> None:
        """Make the logs of new partitions in a thread, and serve the partitions."""
        image = self._image
        by_id = image.topics_by_id
        wanted = [
            (by_id[topic.topic_id], index)
            for topic, index in missing
            if topic.topic_id in by_id and self._is_missing(by_id[topic.topic_id], index)
        ]
        keys = [(topic.name, index) for topic, index in wanted]
        in_the_way = [self._doomed.pop(key) for key in keys if key in self._doomed]
        if in_the_way:
            await self._threads.run(self._delete_logs, in_the_way)
        opened = await self._threads.run(self._open_new, wanted)
        for (topic, index), one in zip(wanted, opened, strict=True):
            # Later commits may have been followed meanwhile.
            now = self._image.topics_by_id.get(topic.topic_id)
            if self._image is not image and isinstance(one, PartitionLog):
                one.update_config(self._log_config(topic.name))
            if now is not None and role_of(now.partitions[index], self._node_id) is not Role.NONE:
                self.serve(now, index, one, is_new=True)
            elif isinstance(one, PartitionLog):
                await self._threads.run(
                    self._log_manager.delete, topic.name, index, self._clock.steady_ms()
                )

    def _open_new(self, missing: Sequence[_Missing]) -> list[PartitionLog | KafkaError]:
        """The log or the error of each new partition; called in a thread."""
        configs = {name: self._log_config(name) for name in {topic.name for topic, _ in missing}}
        return [
            self._open_log(topic, index, configs[topic.name], is_new=True)
            for topic, index in missing
        ]

    async def retry_offline(self) -> None:
        """Try again to open partitions whose logs couldn't be made, perhaps for lack of space."""
        for key in list(self._offline):
            async with self._changing:
                await self._retry(key)

    async def _retry(self, key: TopicPartition) -> None:
        """Try to open one partition; a topic of before may have had its name."""
        (name, index), is_new = key, self._offline.get(key)
        topic = self._image.topics_by_name.get(name)
        if topic is None or is_new is None:
            return
        config = self._log_config(name)
        opened = await self._threads.run(
            partial(self._open_log, topic, index, config, is_new=is_new)
        )
        now = self._image.topics_by_id.get(topic.topic_id)
        if now is not None and key in self._offline:
            self.serve(now, index, opened, is_new=is_new)
        elif isinstance(opened, PartitionLog):
            await self._threads.run(self._log_manager.delete, name, index, self._clock.steady_ms())

    def put_strays_aside(self) -> None:
        """Put aside the logs that no longer belong to this broker, when it has opened the others.

        A topic was deleted or a replica moved away while the broker was down, or while the log's
        data directory was offline.
        """
        self._log_manager.put_strays_aside(self._assigned_topic_ids())

    def _assigned_topic_ids(self) -> dict[TopicPartition, bytes]:
        """The topic ids of the partitions that the image gives to this broker."""
        return {
            (topic.name, index): topic.topic_id
            for topic in self._image.topics_by_name.values()
            for index, row in enumerate(topic.partitions)
            if self._node_id in row.replicas
        }

    def _open_log(
        self, topic: TopicImage, index: int, config: LogConfig, *, is_new: bool
    ) -> PartitionLog | KafkaError:
        """The log of a partition, or the error that prevents it; a thread may call this.

        The leader's epoch is written here, because the first append may not wait for the disk.
        """
        row = topic.partitions[index]
        leads = role_of(row, self._node_id) is not Role.FOLLOWER
        epoch = row.leader_epoch if leads else UNDEFINED
        now_ms = self._clock.now_ms()
        try:
            opened = self._log_manager.get_or_create(
                topic.name, index, topic.topic_id, config, now_ms, is_new=is_new, epoch=epoch
            )
            if leads:
                self._log_manager.begin_epoch(opened, epoch)
            if opened.flush_is_due:  # consumers would see unflushed records that may be lost
                opened.flush(self._clock.steady_ms())
            return opened
        except KafkaError as error:
            return error

    def serve(
        self, topic: TopicImage, index: int, opened: PartitionLog | KafkaError, *, is_new: bool
    ) -> None:
        """Take the role of a partition, or note that it is offline.

        The broker may try to open an offline partition again while a topic with the same name is
        deleted and created anew. The first log that opens counts, because fetches may already wait
        for it.
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
        assert replica.topic_id == topic.topic_id, key
        self._set_up(replica, opened.config)
        self.host(replica)
