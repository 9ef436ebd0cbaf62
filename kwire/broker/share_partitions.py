"""The share partitions that this broker leads, and the sessions of their members.

Rules:

- A share partition is loaded when a member first fetches from it: the persistent state is read,
  which fences earlier leaders. It is dropped when this broker no longer leads the partition in the
  same epoch, or when a write says that another leader or a newer state has replaced it. It is
  dropped, too, when the last session of its group ends: then the group's offsets may be altered or
  deleted, which nobody tells its partitions' leaders.
- Changes of a share partition are written by one task at a time, while more changes collect. If the
  state's coordinator is on this broker and nothing else has to be waited for, they are written on
  the spot, without a task. A write that failed is tried again, with pauses, also if nobody fetches.
- A share partition whose records are ARCHIVING is loaded also without a member (``resume``), so
  that a restart or another leader leaves no dead letter unwritten until somebody fetches.
- One task ends the locks whose time is up, and the sessions of closed connections, partition by
  partition: others have their turn meanwhile.
- Dead letters of a share partition are written by one task at a time, oldest first. The share
  partition stays until they are written.
- Locks are timed by trio's clock, so that a changed date ends none.

Source: SharePartitionManager of Kafka.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.partition import Partition
from kwire.broker.share_dead_letters import DeadLetterBroker, ShareDeadLetters
from kwire.broker.share_history import ShareHistory, held_by, held_until
from kwire.broker.share_settings import EARLIEST, LATEST, ShareSettings, share_settings
from kwire.budget.slices import Slices
from kwire.client.backoff import Backoff
from kwire.errors import ErrorCode, KafkaError
from kwire.log.time_search import TimeSearch
from kwire.log.validation import INLINE_LIMITS
from kwire.record.batch import InvalidRecords
from kwire.record.streaming_decompressor import do_nothing
from kwire.share.dead_letters import DeadLetters
from kwire.share.key import SharePartitionKey
from kwire.share.partition import SharePartition
from kwire.share.run import NEVER_MS, Transition
from kwire.share.sessions import SessionLimits, ShareSession, ShareSessions

if TYPE_CHECKING:
    from kwire.broker.share_states import ShareStates
    from kwire.share.persister import Persister

log = logging.getLogger(__name__)

TICK_S = 0.5
SHORTEST_TICK_S = 0.05
"""The longest and the shortest interval between two looks at locks and sessions, in seconds."""

FIRST_PAUSE_S, LAST_PAUSE_S = 0.5, 30.0
"""The pauses before a failed write of state is tried again, or a failed ``resume``."""

AT_ONCE = 20
"""So many partitions of a session that ends are released on the spot."""

_TOLD = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The member's error for an error of the persister; other errors are passed on."""

_REPLACED = {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.FENCED_STATE_EPOCH,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of a write after which the share partition has to be loaded anew."""


class ShareBroker(DeadLetterBroker, Protocol):
    """A broker, for its share partitions."""

    @property
    def persister(self) -> "Persister":
        """Reads and writes persistent states."""

    @property
    def share_states(self) -> "ShareStates":
        """The states whose coordinator is this broker."""

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """A partition that this broker leads; KafkaError."""


class ServedShare:
    """A share partition, the partition whose records it has, and the fetches that wait for it.

    ``expired`` counts the records whose lock has ended, since the share partition was loaded.
    """

    __slots__ = (
        *("dead", "expired", "is_writing", "partition", "pauses", "retry_ms", "share", "waiters"),
        "writes_dead",
    )

    def __init__(self, share: SharePartition, partition: Partition, pauses: Backoff) -> None:
        assert share.key.partition == partition.index, (share.key, partition.index)
        self.pauses = pauses
        self.retry_ms = 0  # no write is tried again sooner after a failure
        self.share = share
        self.partition = partition
        self.is_writing = False
        self.expired = 0
        self.dead: deque[DeadLetters] = deque()
        self.writes_dead = False
        self.waiters: set[Delayed] = set()

    def wake(self) -> None:
        """Wake the fetches that wait for records to become available."""
        for waiter in self.waiters:
            waiter.set()


class SharePartitions:
    """The share partitions and share sessions of one broker.

    ``acknowledgements`` counts records by the number of Kafka's type of acknowledgement.
    """

    def __init__(self, broker: ShareBroker) -> None:
        self._broker = broker
        self.sessions = ShareSessions(self.end)
        self.history = ShareHistory()
        self.acknowledgements: Counter[int] = Counter()
        self.dead_letters = ShareDeadLetters(broker, self.history)
        self._served: dict[SharePartitionKey, ServedShare] = {}
        self._of_group: dict[str, dict[SharePartitionKey, ServedShare]] = {}
        self._loading: dict[SharePartitionKey, trio.Event] = {}
        self._to_resume: dict[SharePartitionKey, None] = {}
        self._resumes = False

    def now_ms(self) -> int:
        """Milliseconds for locks."""
        return int(trio.current_time() * 1000)

    def limits(self) -> SessionLimits:
        """The limits of sessions."""
        integer = self._broker.integer
        return SessionLimits(
            integer("group.share.max.share.sessions"),
            integer("kwire.fetch.session.cache.max.partitions"),
        )

    def settings(self, group_id: str) -> ShareSettings:
        """The settings of a group."""
        return share_settings(self._broker.settings, self._broker.image, group_id)

    def served(self, key: SharePartitionKey) -> ServedShare | None:
        """A share partition, None if it has to be loaded first.

        Raises KafkaError if this broker doesn't lead the partition.
        """
        partition = self._broker.partition_by_id(key.topic_id, key.partition)
        served = self._served.get(key)
        if served is not None and served.partition is not partition:
            self._drop(served)
            served = None
        return served

    def loaded(self) -> list[ServedShare]:
        """The share partitions that are in memory."""
        return list(self._served.values())

    def loaded_of(self, group_id: str) -> list[ServedShare]:
        """The share partitions of a group that are in memory."""
        return list(self._of_group.get(group_id, {}).values())

    async def load(self, key: SharePartitionKey) -> None:
        """Load a share partition, if it isn't yet; requests at the same time share the work.

        Raises KafkaError with the member's error.
        """
        loading = self._loading.get(key)
        if loading is not None:
            await loading.wait()
            return
        if self.served(key) is not None:
            return
        self._loading[key] = loading = trio.Event()
        try:
            await self._load(key)
        except KafkaError as error:
            code = _TOLD.get(error.code, error.code)
            raise KafkaError(code, error.message) from error
        finally:
            del self._loading[key]
            loading.set()

    async def _load(self, key: SharePartitionKey) -> None:
        partition = self._broker.partition_by_id(key.topic_id, key.partition)
        settings = self.settings(key.group_id)
        state = await self._broker.persister.read(key, partition.leader_epoch)
        start_offset = state.start_offset
        if start_offset < 0:
            start_offset = await self._reset_offset(partition, settings)
        share = SharePartition(key, partition.leader_epoch, settings.limits)
        is_written = start_offset == state.start_offset
        share.load(state.state_epoch, start_offset, state.batches, is_written=is_written)
        share.begin_at(partition.log.log_start_offset)
        served = ServedShare(share, partition, self._pauses())
        if self._broker.partition_by_id(key.topic_id, key.partition) is partition:
            assert key not in self._served, key  # one request loads it for all
            self._served[key] = served
            self._of_group.setdefault(key.group_id, {})[key] = served
            self.history.loaded(share, partition, self._broker.now_ms())
            self.write(served)
            self._write_dead(served)

    def _pauses(self) -> Backoff:
        return Backoff(FIRST_PAUSE_S, LAST_PAUSE_S, self._broker.random)

    def resume(self, keys: Iterable[SharePartitionKey]) -> None:
        """Load those share partitions that this broker leads: dead letters may be missing."""
        for key in keys:
            if key not in self._served and self._is_led(key):
                self._to_resume[key] = None
        if self._to_resume and not self._resumes:
            self._resumes = True
            self._broker.background.start_soon(self._resume)

    async def _resume(self) -> None:
        pauses = self._pauses()
        while self._to_resume:
            key = next(iter(self._to_resume))
            del self._to_resume[key]
            try:
                if self._is_led(key):
                    await self.load(key)
            except KafkaError as error:
                if error.retriable and self._is_led(key):
                    self._to_resume[key] = None
                    await trio.sleep(pauses.next_s())
                else:
                    log.warning("share partition %s: dead letters: %s", key.coordinator_key, error)
            else:
                pauses.reset()
        assert not self._to_resume, len(self._to_resume)  # nothing is left behind
        self._resumes = False

    def _is_led(self, key: SharePartitionKey) -> bool:
        try:
            self._broker.partition_by_id(key.topic_id, key.partition)
        except KafkaError:
            return False
        return True

    async def _reset_offset(self, partition: Partition, settings: ShareSettings) -> int:
        """Where a group begins that has no state, by its ``share.auto.offset.reset``."""
        if settings.offset_reset == LATEST:
            return partition.high_watermark
        if settings.offset_reset == EARLIEST:
            return partition.log.log_start_offset
        since_ms = self._broker.now_ms() - settings.reset_duration_ms
        search = TimeSearch(partition.log, since_ms)
        while not search.is_done:
            opening = search.step()
            if opening is not None:
                try:
                    found = search.search_in_batch(opening, INLINE_LIMITS, do_nothing)
                except InvalidRecords:  # a batch that is large: its first record stands for all
                    found = opening.unread()
                search.add_result(found)
            await trio.lowlevel.checkpoint()
        if search.found is None or search.found.offset >= partition.high_watermark:
            return partition.high_watermark
        return search.found.offset

    def _drop(self, served: ServedShare) -> None:
        key = served.share.key
        if self._served.get(key) is served:
            del self._served[key]
            of_group = self._of_group[key.group_id]
            del of_group[key]
            if not of_group:
                del self._of_group[key.group_id]
        served.wake()

    def _drop_unused(self, served: ServedShare) -> None:
        """Drop a share partition without members in its group, unless it is being written."""
        is_used = self.sessions.has_group(served.share.key.group_id)
        is_used |= served.is_writing or served.writes_dead or served.share.has_unwritten
        if not (is_used or served.waiters):
            self._drop(served)

    # Changes

    def write(self, served: ServedShare) -> None:
        """Write the changes of a share partition; members that wait are told afterwards."""
        if served.is_writing or not served.share.has_unwritten:
            return
        if not self._write_here(served):
            served.is_writing = True
            self._broker.background.start_soon(self._write_elsewhere, served)

    def _write_here(self, served: ServedShare) -> bool:
        """Write to this broker's coordinator, if nothing has to be waited for; whether it was."""
        key, states = served.share.key, self._broker.share_states
        try:
            if states.lookup.leader_for(key.coordinator_key) != self._broker.node_id:
                return False
            coordinator = states.home_of(key)
        except KafkaError:
            return False
        if coordinator.committed is not None or coordinator.partition.log.flush_is_due:
            return False
        write, transitions = served.share.next_write()
        try:
            states.write(key, write)
        except KafkaError as error:
            self._failed(served, transitions, error)
        else:
            self._commit(served, transitions)
        return True

    def _write_dead(self, served: ServedShare) -> None:
        """Begin to write the dead letters that are due."""
        served.dead.extend(served.share.take_dead())
        if served.dead and not served.writes_dead:
            served.writes_dead = True
            self._broker.background.start_soon(self._write_dead_letters, served)

    async def _write_dead_letters(self, served: ServedShare) -> None:
        """Write dead letters until none are due, and archive their records."""
        key = served.share.key
        try:
            while served.dead:
                dead = served.dead.popleft()
                if not await self.dead_letters.write(
                    key.group_id, served.partition, dead, lambda: self._served.get(key) is served
                ):
                    return  # the next leader writes them
                served.share.archive(dead)
                served.wake()  # there is room for other locks
                self.write(served)
        finally:
            served.writes_dead = False
        self._drop_unused(served)

    async def _write_elsewhere(self, served: ServedShare) -> None:
        """Write to a coordinator that has to be waited for, until nothing is left to write."""
        assert served.is_writing, served.share.key  # so that ``write`` starts no second task
        try:
            while served.share.has_unwritten:
                write, transitions = served.share.next_write()
                try:
                    await self._broker.persister.write(served.share.key, write)
                except KafkaError as error:
                    self._failed(served, transitions, error)
                    break
                self._commit(served, transitions)
        finally:
            served.is_writing = False
        self._drop_unused(served)

    def _commit(self, served: ServedShare, transitions: list[Transition]) -> None:
        """Have written acknowledgements count."""
        served.pauses.reset()
        served.retry_ms = 0
        now_ms = self._broker.now_ms()
        self.history.settled(served.share, served.partition, transitions, now_ms)
        if served.share.commit(transitions):
            served.wake()
        self._write_dead(served)

    def _failed(
        self, served: ServedShare, transitions: list[Transition], error: KafkaError
    ) -> None:
        """Give the acknowledgements of a write that failed, and of the next one, their error."""
        told = KafkaError(_TOLD.get(error.code, error.code), error.message)
        served.share.roll_back([*transitions, *served.share.take_waiting()], told)
        served.retry_ms = self.now_ms() + int(served.pauses.next_s() * 1000)
        key = served.share.key
        log.warning("cannot write the state of share partition %s: %s", key.coordinator_key, error)
        if error.code in _REPLACED:
            self._drop(served)

    def end(self, session: ShareSession) -> None:
        """Release what a member holds, because its session has ended: some now, the rest soon."""
        left = self._release(session)
        if sum(1 for _ in islice(left, AT_ONCE)) == AT_ONCE:
            self._broker.background.start_soon(_in_slices, left)

    def _release(self, session: ShareSession) -> Iterator[None]:
        """Release what a member holds, in pieces."""
        group_id = session.group_id
        for topic_id, index in list(session.partitions):
            yield
            if self.sessions.has_member(group_id, session.member_id):
                break  # what it holds may be of its new session
            served = self._served.get(SharePartitionKey(group_id, topic_id, index))
            if served is not None:
                held, now_ms = held_by(served.share, session.member_id), self._broker.now_ms()
                if served.share.release(session.member_id):
                    served.wake()
                self.history.session_ended(served.share, served.partition, held, now_ms)
                self.write(served)
        for served in list(self._of_group.get(group_id, {}).values()):
            yield
            self._drop_unused(served)

    # Work that no request causes

    async def run(self) -> None:
        """End locks and sessions in time, forever."""
        while True:
            next_ms = min((one.share.wake_ms for one in self._served.values()), default=1 << 62)
            wait_s = min(TICK_S, next_ms / 1000 - trio.current_time())
            await trio.sleep(max(SHORTEST_TICK_S, wait_s))
            await _in_slices(self.tick())

    def tick(self) -> Iterator[None]:
        """End the locks and sessions whose time is up, and drop what is not used, in pieces."""
        for session in self.sessions.remove_gone():
            yield from self._release(session)
        now_ms = self.now_ms()
        for served in list(self._served.values()):
            if served.partition.is_deleted:
                self._drop(served)
            elif served.share.wake_ms <= now_ms:
                yield
                served.share.limits = self.settings(served.share.key.group_id).limits
                self._end_locks(served, now_ms)
            elif served.retry_ms <= now_ms:
                self.write(served)
            self._drop_unused(served)

    def end_locks(self, group_id: str) -> None:
        """End all locks of a group at once, as if their time was up; for tests of workers."""
        for served in self.loaded_of(group_id):
            self._end_locks(served, NEVER_MS - 1)

    def _end_locks(self, served: ServedShare, now_ms: int) -> None:
        held = held_until(served.share, now_ms)
        served.expired += sum(one.size for one in held)
        if served.share.expire(now_ms):
            served.wake()
        self.history.expired(served.share, served.partition, held, self._broker.now_ms())
        self.write(served)


async def _in_slices(pieces: Iterator[None]) -> None:
    """Do work that no request pays for, so that others have their turn meanwhile."""
    slices = Slices()
    for _ in pieces:
        await slices.give_way()
