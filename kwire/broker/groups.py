"""The broker's groups: the coordinator of each group, and the loading of coordinators.

Rules:

- A group's records are in a partition of ``__consumer_offsets`` (``lookup``). The group's
  coordinator is loaded when this broker begins to lead that partition. It is dropped when this
  broker stops leading the partition: members that wait then get NOT_COORDINATOR. Until it is
  loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS.
- A coordinator answers only from replicated records (``committed``), even if a request only reads.
  A new leader loads its coordinator up to the end of the log, and so with records that aren't
  replicated yet.
- A damaged or offline partition has no coordinator. Requests of its groups get NOT_COORDINATOR or
  COORDINATOR_NOT_AVAILABLE; groups of other partitions are served as usual.
- One task waits for the next deadline of all groups. A group's overdue work is done before a
  request for this group is answered, as in Kafka, whose timers overtake the queue of requests.
- Sessions and rebalances are timed by trio's clock, so that a changed date, or a sleep of the
  machine, ends no member's session. Times in records are dates.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import trio

from kwire.broker.coordinator_log import CoordinatorLog
from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.group_surroundings import group_surroundings
from kwire.broker.jobs import Jobs
from kwire.broker.partition import Partition
from kwire.broker.view import BrokerView
from kwire.coordinator.effects import Effects, Failures, Job, StateWork
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.rebalance_history import RebalanceHistory
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import OFFSETS_TOPIC
from kwire.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from kwire.broker.delayed_response import CommittedRecords

log = logging.getLogger(__name__)

_MINUTE_MS = 60_000


class LoadedCoordinator:
    """A coordinator that is ready, the runtime that drives it, and its partition.

    ``committed`` has the records on which its answers rest; it is None at replication factor 1.
    """

    __slots__ = ("committed", "groups", "partition", "runtime")

    def __init__(
        self,
        groups: GroupCoordinator,
        runtime: CoordinatorRuntime,
        partition: Partition,
        committed: "CommittedRecords | None",
    ) -> None:
        self.groups = groups
        self.runtime = runtime
        self.partition = partition
        self.committed = committed

    def carry_out(self, effects: Effects) -> None:
        """Write the records and send the replies; KafkaError if the records can't be written."""
        self.runtime.carry_out(effects)


class Groups:
    """All groups of the broker."""

    topic_name = OFFSETS_TOPIC

    def __init__(self, broker: BrokerView) -> None:
        self._broker = broker
        self.lookup = CoordinatorLookup(broker, OFFSETS_TOPIC)
        self.partition_index = self.lookup.partition_of  # every request needs it: this saves a call
        self._loaded: dict[int, LoadedCoordinator] = {}
        self._look_again = trio.Event()
        self._look_again.set()
        self._deleting: set[str] = set()
        self._changed = trio.Event()
        self._wakes_at_ms = 0
        self._epoch_ms = broker.now_ms() - trio.current_time() * 1000
        self._next_expiry_ms = broker.clock.steady_ms() + self._expiry_interval_ms()
        self._is_closed = False
        self._history = RebalanceHistory()
        self._jobs = Jobs(broker.background, broker.threads, broker.bugs)
        self.surroundings = group_surroundings(broker)

    def now_ms(self) -> int:
        """Milliseconds for deadlines: trio's clock, counted from the date at the broker's start."""
        return int(self._epoch_ms + trio.current_time() * 1000)

    @property
    def has_topic(self) -> bool:
        """Whether ``__consumer_offsets`` exists."""
        return self.lookup.topic_exists

    async def ensure_topic(self) -> None:
        """Create ``__consumer_offsets`` if missing; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
        await self.lookup.ensure_topic()

    def announce(self, group_id: str, connection_id: int) -> None:
        """Note that a client asks for its group's coordinator: it may join the group next.

        ``connection_id`` is the client's, unique among all brokers.
        """
        with suppress(KafkaError):
            groups = self._get(self.partition_index(group_id)).groups
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
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if group_id in self._deleting:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        loaded = self._get(self.partition_index(group_id))
        if loaded.committed is not None:
            self._broker.flusher.rest_on(loaded.committed)
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

    def _get(self, index: int) -> LoadedCoordinator:
        loaded = self._loaded.get(index)
        if loaded is not None:
            if loaded.committed is None:
                if not loaded.partition.is_offline:
                    return loaded
            elif self.lookup.is_here(loaded.partition):
                return loaded
            self._resign(index)
        self._loaded[index] = loaded = self._new(self.lookup.empty_partition(index))
        return loaded

    def _resign(self, index: int) -> None:
        """Drop a coordinator whose partition has another leader; waiting members get an error."""
        loaded = self._loaded.pop(index, None)
        if loaded is not None:
            assert loaded.partition.index == index, (loaded.partition.index, index)
            loaded.carry_out(loaded.groups.end(ErrorCode.NOT_COORDINATOR))

    def end_transaction(
        self, index: int, marker: bytearray, producer_id: int, *, committed: bool
    ) -> None:
        """Write a transaction's marker, which commits or drops the transaction's pending offsets.

        Raises KafkaError: COORDINATOR_LOAD_IN_PROGRESS, and the errors of ``Partition.append``.
        """
        self._get(index).runtime.end_transaction(marker, producer_id, committed=committed)

    def loaded(self) -> list[LoadedCoordinator]:
        """The coordinators that are ready now."""
        return list(self._loaded.values())

    def all_coordinators(self) -> list[LoadedCoordinator]:
        """Every coordinator whose partition can be used.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) while one isn't ready yet.
        """
        found = [self._get(index) for index in self.lookup.partitions_here()]
        for loaded in found:
            if loaded.committed is not None:
                self._broker.flusher.rest_on(loaded.committed)
        return found

    async def forget_deleted_topics(self) -> None:
        """Delete the offsets that are committed for deleted topics, and forget their share states.

        Other tasks have their turn in between. The task that deletes the topics may end meanwhile.
        """
        self._resign_lost()
        with trio.CancelScope(shield=True):
            for loaded in list(self._loaded.values()):
                for effects in self._forgetting(loaded.groups):
                    self._carry_out(loaded, effects)
                    await trio.lowlevel.checkpoint()

    def _forgetting(self, groups: GroupCoordinator) -> Iterator[Effects]:
        yield from groups.committed.forget_topics(self._is_gone)
        if groups.has_share_groups:
            yield from groups.share.forget_topics(self.now_ms())

    def _is_gone(self, topic: str) -> bool:
        return topic not in self._broker.image.topics_by_name

    def close(self) -> None:
        """Refer all members that wait to another coordinator, because the broker stops."""
        self._is_closed = True
        for loaded in self._loaded.values():
            loaded.carry_out(loaded.groups.end(ErrorCode.NOT_COORDINATOR))

    def look_again(self) -> None:
        """Load and drop coordinators, because this broker may lead other partitions now."""
        self._look_again.set()

    async def run(self) -> None:
        """Coordinate the groups in the partitions that this broker leads, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_partitions)
            await self._keep_time()

    async def _follow_partitions(self) -> None:
        """Compare the coordinators with the partitions led here, whenever these change."""
        while True:
            await self._look_again.wait()
            self._look_again = trio.Event()
            self._resign_lost()
            for partition in self.lookup.partitions_to_load():
                if partition.index not in self._loaded:
                    await self._load(partition)
            if len(self._broker.image.brokers) > 1:  # another broker may have deleted topics
                await self.forget_deleted_topics()

    def _resign_lost(self) -> None:
        """Drop the coordinators whose partitions this broker no longer leads."""
        for index, loaded in list(self._loaded.items()):
            if not self.lookup.is_here(loaded.partition):
                self._resign(index)

    async def _keep_time(self) -> None:
        """Do each group's overdue work, forever."""
        while True:
            self._changed = trio.Event()
            self._wakes_at_ms = self._next_deadline_ms()
            wait_s = max(0, self._wakes_at_ms - self.now_ms()) / 1000
            with trio.move_on_after(wait_s):
                await self._changed.wait()
            await self._tick()
            await self._expire_offsets()

    async def _load(self, partition: Partition) -> None:
        batches = CoordinatorLog(partition, self.lookup.is_here)
        loaded = self._new(partition)
        try:
            await loaded.runtime.load(batches)
        except (KafkaError, OSError) as error:
            if not self.lookup.is_here(partition):
                return  # its next leader may have truncated it meanwhile
            batches.say_why_not_loaded(
                error, "its groups, and the transactions with offsets of these groups,"
            )
            self.lookup.mark_damaged(partition)
            return
        if self.lookup.is_here(partition):
            self._loaded[partition.index] = loaded

    def _new(self, partition: Partition) -> LoadedCoordinator:
        groups = GroupCoordinator(
            self._settings(),
            self._random_id,
            self.surroundings,
            self._history,
            self._date_ms,
        )
        compression = self._broker.integer("offsets.topic.compression.codec")
        runtime = CoordinatorRuntime(
            groups,
            partition.append_own,
            self.now_ms,
            self._wake_by,
            compression,
            lambda: partition.flush,
            lambda function: self._broker.do_afterwards(function),
            lambda job: self._start_job(loaded, job),
            self._date_ms,
            lambda work: self._start_state_work(loaded, work),
        )
        loaded = LoadedCoordinator(groups, runtime, partition, self.lookup.committed_of(partition))
        return loaded

    def _start_job(self, loaded: LoadedCoordinator, job: Job) -> None:
        """Begin a coordinator's long work in a thread."""

        def is_wanted() -> bool:
            return not self._is_closed and loaded in self._loaded.values()

        def hand_in(done: Job, result: object) -> None:
            self._carry_out(loaded, done.hand_in(result, self.now_ms()))

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

    def wake_if_due(self) -> None:
        """Wake the task when offsets have to be checked for expiry, also after a sleep."""
        if self._broker.clock.steady_ms() >= self._next_expiry_ms:
            self._changed.set()

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

    def _expiry_interval_ms(self) -> int:
        return self._broker.integer("offsets.retention.check.interval.ms")

    def _next_deadline_ms(self) -> int:
        deadlines = [loaded.groups.next_deadline_ms() for loaded in self._loaded.values()]
        left_ms = self._next_expiry_ms - self._broker.clock.steady_ms()
        return min([self.now_ms() + left_ms, *(d for d in deadlines if d is not None)])

    async def _tick(self) -> None:
        """Do the overdue work, group by group; other tasks have their turn in between."""
        now_ms = self.now_ms()
        for loaded in list(self._loaded.values()):
            try:
                while loaded.runtime.tick(now_ms):
                    await trio.lowlevel.checkpoint()
            except KafkaError as error:
                # The groups after this one are still overdue: their turn comes next.
                log.error("cannot write to %s: %s", OFFSETS_TOPIC, error)

    async def _expire_offsets(self) -> None:
        steady_ms = self._broker.clock.steady_ms()
        if steady_ms < self._next_expiry_ms:
            return
        self._next_expiry_ms = steady_ms + self._expiry_interval_ms()
        age_ms = self._broker.clock.ages()
        for loaded in list(self._loaded.values()):
            for effects in loaded.groups.expire_offsets(age_ms):
                self._carry_out(loaded, effects)
                await trio.lowlevel.checkpoint()

    def _carry_out(self, loaded: LoadedCoordinator, effects: Effects) -> None:
        """Carry out effects that no request caused; log a failure, and try again later."""
        try:
            loaded.carry_out(effects)
        except KafkaError as error:
            log.error("cannot write to %s: %s", OFFSETS_TOPIC, error)


def _do_due(loaded: LoadedCoordinator, group_id: str, now_ms: int) -> None:
    """Do the overdue work of one group now, because the task for deadlines may not have run yet.

    Work whose records can't be written stays overdue. The task for deadlines then logs the error.
    """
    with suppress(KafkaError):
        while (effects := loaded.groups.tick_group(group_id, now_ms)) is not None:
            loaded.carry_out(effects)
