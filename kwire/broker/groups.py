"""The broker's groups: the coordinator of each group, over ``__consumer_offsets``.

Rules (besides those of ``PartitionCoordinators``):

- Members that wait when this broker stops leading their group's partition get NOT_COORDINATOR.
- One task waits for the next deadline of all groups. A group's overdue work is done before a
  request for this group is answered, as in Kafka, whose timers overtake the queue of requests.
- Sessions and rebalances are timed by trio's clock, so that a changed date, or a sleep of the
  machine, ends no member's session. Times in records are dates.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

import trio

from kwire.broker.group_surroundings import group_surroundings
from kwire.broker.jobs import Jobs
from kwire.broker.partition import Partition
from kwire.broker.partition_coordinators import Loaded, PartitionCoordinators, Periodic
from kwire.broker.view import BrokerView
from kwire.coordinator.effects import Effects, Failures, Job, StateWork
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.rebalance_history import RebalanceHistory
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import OFFSETS_TOPIC

if TYPE_CHECKING:
    pass

log = logging.getLogger(__name__)

_MINUTE_MS = 60_000


LoadedCoordinator: TypeAlias = Loaded[GroupCoordinator]
"""A coordinator of groups that is ready."""


class Groups(PartitionCoordinators[LoadedCoordinator]):
    """All groups of the broker."""

    topic_name = OFFSETS_TOPIC
    unusable = "its groups, and the transactions with offsets of these groups,"

    def __init__(self, broker: BrokerView) -> None:
        expire = Periodic("offsets.retention.check.interval.ms", self._expire_offsets)
        super().__init__(broker, expire)
        self.partition_index = self.lookup.partition_of
        self._deleting: set[str] = set()
        self._wakes_at_ms = 0
        self._epoch_ms = broker.now_ms() - trio.current_time() * 1000
        self._history = RebalanceHistory()
        self._jobs = Jobs(broker.background, broker.threads, broker.bugs)
        self.surroundings = group_surroundings(broker)

    def now_ms(self) -> int:
        """Milliseconds for deadlines: trio's clock, counted from the date at the broker's start."""
        return int(self._epoch_ms + trio.current_time() * 1000)

    def announce(self, group_id: str, connection_id: int) -> None:
        """Note that a client asks for its group's coordinator: it may join the group next.

        ``connection_id`` is the client's, unique among all brokers.
        """
        with suppress(KafkaError):
            groups = self._get(self.partition_index(group_id)).coordinator
            groups.classic.announce(group_id, connection_id, self.now_ms())

    def coordinator(self, group_id: str) -> LoadedCoordinator:
        """The coordinator of a group.

        Raises KafkaError: INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        return self.coordinator_or_empty(group_id)

    def coordinator_or_empty(self, group_id: str) -> LoadedCoordinator:
        """Like ``coordinator``, for requests in which Kafka allows an empty group id."""
        if group_id in self._deleting and not self._is_closed:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        loaded = self.of(group_id)
        now_ms = self.now_ms()
        if now_ms >= self._wakes_at_ms:
            _do_due(loaded, group_id, now_ms)
        return loaded

    @contextmanager
    def deleting(self, group_id: str) -> Iterator[None]:
        """Refuse requests about a group while it is deleted in pieces: it has lost offsets."""
        self._deleting.add(group_id)
        try:
            yield
        finally:
            self._deleting.discard(group_id)

    def _is_here(self, loaded: LoadedCoordinator) -> bool:
        # Every request asks this, and a partition without followers has no other leader.
        if loaded.committed is None:
            return not loaded.partition.is_offline
        return self.lookup.is_here(loaded.partition)

    def _end(self, loaded: LoadedCoordinator) -> None:
        loaded.carry_out(loaded.coordinator.end(ErrorCode.NOT_COORDINATOR))

    def end_transaction(
        self, index: int, marker: bytearray, producer_id: int, *, committed: bool
    ) -> None:
        """Write a transaction's marker, which commits or drops the transaction's pending offsets.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, and the errors of ``Partition.append``.
        """
        self._get(index).runtime.end_transaction(marker, producer_id, committed=committed)

    async def forget_deleted_topics(self) -> None:
        """Delete the offsets that are committed for deleted topics, and forget their share states.

        Other tasks have their turn in between. The task that deletes the topics may end meanwhile.
        """
        self._resign_lost()
        with trio.CancelScope(shield=True):
            for loaded in self.loaded():
                for effects in self._forgetting(loaded.coordinator):
                    self._try_effects(loaded, effects)
                    await trio.lowlevel.checkpoint()

    def _forgetting(self, groups: GroupCoordinator) -> Iterator[Effects]:
        yield from groups.committed.forget_topics(self._is_gone)
        if groups.has_share_groups:
            yield from groups.share.forget_topics(self.now_ms())

    def _is_gone(self, topic: str) -> bool:
        return topic not in self._broker.image.topics_by_name

    async def _after_loading(self) -> None:
        if len(self._broker.image.brokers) > 1:  # another broker may have deleted topics
            await self.forget_deleted_topics()

    def _new(self, partition: Partition) -> LoadedCoordinator:
        groups = GroupCoordinator(
            self._settings(),
            self._random_id,
            self.surroundings,
            self._history,
            self._date_ms,
        )
        runtime = self._runtime(
            groups,
            partition,
            self._wake_by,
            compression=self._broker.integer("offsets.topic.compression.codec"),
            begin=lambda job: self._start_job(loaded, job),
            date_ms=self._date_ms,
            persist=lambda work: self._start_state_work(loaded, work),
        )
        committed = self.lookup.committed_of(partition)
        loaded: LoadedCoordinator = LoadedCoordinator(groups, runtime, partition, committed)
        return loaded

    def _start_job(self, loaded: LoadedCoordinator, job: Job) -> None:
        """Begin a coordinator's long work in a thread."""

        def is_wanted() -> bool:
            return not self._is_closed and loaded in self._loaded.values()

        def hand_in(done: Job, result: object) -> None:
            self._try_effects(loaded, done.hand_in(result, self.now_ms()))

        self._jobs.start_job(job, is_wanted, hand_in)

    def _start_state_work(self, loaded: LoadedCoordinator, work: StateWork) -> None:
        self._broker.background.start_soon(self._try_state_work, loaded, work)

    async def _try_state_work(self, loaded: LoadedCoordinator, work: StateWork) -> None:
        try:
            await self.do_state_work(loaded, work)
        except KafkaError as error:
            log.error("cannot write to %s: %s", OFFSETS_TOPIC, error)

    async def do_state_work(self, loaded: LoadedCoordinator, work: StateWork) -> Failures:
        """Begin or end share states, and tell the coordinator; returns what failed.

        Raises KafkaError: NOT_COORDINATOR if the coordinator is gone meanwhile, and the errors of
        writing what came of it.
        """
        from kwire.broker.group_state_work import do_state_work

        failures = await do_state_work(self._broker.persister, work)
        if self._is_closed or loaded not in self._loaded.values():
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        loaded.carry_out(work.hand_in(failures, self.now_ms()))
        return failures

    def _date_ms(self) -> int:
        return self._broker.now_ms()

    def _wake_by(self, deadline_ms: int) -> None:
        if deadline_ms < self._wakes_at_ms:
            self._wakes_at_ms = deadline_ms
            self._changed.set()

    def _random_id(self) -> str:
        digits = self._broker.random.randbytes(16).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _settings(self) -> GroupSettings:
        integer = self._broker.integer
        return GroupSettings(
            initial_rebalance_delay_ms=integer("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=integer("group.max.session.timeout.ms"),
            max_size=integer("group.max.size"),
            offset_metadata_max_bytes=integer("offset.metadata.max.bytes"),
            offsets_retention_ms=integer("offsets.retention.minutes") * _MINUTE_MS,
            max_count=integer("kwire.group.max.count"),
        )

    def _wait_ms(self) -> float:
        now_ms = self.now_ms()
        deadlines = [loaded.coordinator.next_deadline_ms() for loaded in self._loaded.values()]
        next_ms = now_ms + int(super()._wait_ms())
        self._wakes_at_ms = min([next_ms, *(one for one in deadlines if one is not None)])
        return self._wakes_at_ms - now_ms

    async def _do_overdue(self) -> None:
        """Do the overdue work, group by group; other tasks have their turn in between."""
        now_ms = self.now_ms()
        for loaded in self.loaded():
            try:
                while loaded.runtime.tick(now_ms):
                    await trio.lowlevel.checkpoint()
            except KafkaError as error:
                # The groups after this one are still overdue: their turn comes next.
                log.error("cannot write to %s: %s", OFFSETS_TOPIC, error)

    async def _expire_offsets(self) -> None:
        age_ms = self._broker.clock.ages()
        for loaded in self.loaded():
            for effects in loaded.coordinator.expire_offsets(age_ms):
                self._try_effects(loaded, effects)
                await trio.lowlevel.checkpoint()


def _do_due(loaded: LoadedCoordinator, group_id: str, now_ms: int) -> None:
    """Do the overdue work of one group now, because the task for deadlines may not have run yet.

    Work whose records can't be written stays overdue. The task for deadlines then logs the error.
    """
    with suppress(KafkaError):
        while (effects := loaded.coordinator.tick_group(group_id, now_ms)) is not None:
            loaded.carry_out(effects)
