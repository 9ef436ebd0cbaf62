"""Fetch sessions (KIP-227): the broker remembers a client's fetch, and answers only with news.

Rules of every session (``Sessions``), a consumer's and a follower's
(``kwire.broker.replica.replica_sessions``):

- Session id 0 means no session. Epoch 0 asks for a new session. Epoch -1 asks for no session, and
  ends the session that the request names.
- Epochs count up from 1 with each fetch and wrap to 1. Any other epoch is
  INVALID_FETCH_SESSION_EPOCH; an unknown session id is FETCH_SESSION_ID_NOT_FOUND.

Rules of the sessions of consumers (``FetchSessions``):

- At most ``max.incremental.fetch.session.cache.slots`` sessions exist. If all slots are taken, the
  least recently used session ends, if it was idle for more than two minutes. Otherwise the smallest
  of the sessions older than two minutes ends, if it is smaller than the new session. Otherwise the
  client gets no session.
- All sessions together have at most ``kwire.fetch.session.cache.max.partitions``. If a new session
  doesn't fit, even after idle sessions have ended, the client gets none. A session that outgrows
  the bound ends, and the client begins a new one.
- A client that names a topic longer than Kafka's limit for names gets no session, so that no
  session remembers such a name.
- A session keeps names and numbers. It reaches a partition by a reference that a deletion empties.
  So the logs of a deleted topic are freed, whether or not the client fetches again.

Source: FetchSessionCacheShard of Kafka.
"""

from collections.abc import Collection, Iterable
from operator import attrgetter
from random import Random
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from kwire.broker.partition import NOWHERE, HostedPartition, PartitionReference
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_ID = 0x7FFFFFFF
LARGE = 1000
"""Freeing the partitions of a larger session at once would take more than a tenth of a ms."""
LONGEST_NAME = 249
"""How many characters the name of a topic has at most."""

PartitionKey = tuple[str, bytes, int]
"""Topic name (empty in versions with ids), topic id, partition."""


class WantedPartition(Protocol):
    """A partition in a fetch: a ``FetchPartition`` of a request, or a ``CachedPartition``."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    partition_max_bytes: int


class CachedPartition:
    """A partition of a session: the client's wish, and the broker's last answer.

    ``partition`` is its index. ``reference`` leads to the partition that gave the answer.
    """

    __slots__ = (
        *("current_leader_epoch", "fetch_offset", "high_watermark", "log_start_offset"),
        *("partition", "partition_max_bytes", "reference", "topic", "topic_id"),
    )

    def __init__(self, key: PartitionKey, wanted: WantedPartition) -> None:
        self.topic, self.topic_id, self.partition = key
        self.reference: PartitionReference = NOWHERE
        self.high_watermark = -1
        self.log_start_offset = -1
        self.want(wanted)

    def want(self, wanted: WantedPartition) -> None:
        """Note the client's newest wish for this partition."""
        self.current_leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.partition_max_bytes = wanted.partition_max_bytes

    def answered_by(self, partition: HostedPartition) -> None:
        """Remember which partition answered, without keeping it in memory."""
        self.reference = partition.reference

    @property
    def is_quiet(self) -> bool:
        """Whether the partition has nothing that is news to the client.

        In a session with many partitions nearly all are quiet, and each costs only this check. All
        others are read, and then ``is_news`` is asked. Clients learn the same as without a session,
        as tests/handlers/test_fetch_sessions.py shows.
        """
        partition = self.reference.partition
        return (
            partition is not None
            and self.fetch_offset == partition.high_watermark == self.high_watermark
            and self.log_start_offset == partition.log.log_start_offset
            and self.current_leader_epoch in (-1, partition.leader_epoch)
            and not partition.is_offline
        )

    def is_news(self, told: PartitionData) -> bool:
        """Whether this answer is news to the client; the session remembers the answer."""
        watermark, start = told.high_watermark, told.log_start_offset
        if told.error_code:  # the next answer without an error is news
            watermark = start = -1
        has_moved = watermark != self.high_watermark or start != self.log_start_offset
        self.high_watermark, self.log_start_offset = watermark, start
        is_other = told.error_code or told.preferred_read_replica >= 0
        return bool(told.records or is_other or has_moved)


_Partitions: TypeAlias = dict[PartitionKey, CachedPartition]


class Session:
    """One session; ``epoch`` is that of its next fetch."""

    __slots__ = ("epoch", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, *, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1


_S = TypeVar("_S", bound=Session)


class Sessions(Generic[_S]):
    """Sessions by their ids, which are drawn at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, _S] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def unused_id(self) -> int:
        """An id for a new session."""
        session_id = self._random.randint(1, MAX_ID)
        while session_id in self._sessions:
            session_id = self._random.randint(1, MAX_ID)
        return session_id

    def continued(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> _S:
        """The session for its next fetch, whose epoch is counted.

        Raises KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == MAX_ID else epoch + 1
        return session


class FetchSession(Session):
    """A consumer's session; ``partitions`` are in the order in which fetches serve them."""

    __slots__ = ("created_ms", "partitions", "used_ms")

    def __init__(self, session_id: int, uses_topic_ids: bool, steady_ms: int) -> None:
        super().__init__(session_id, uses_topic_ids=uses_topic_ids)
        self.created_ms = self.used_ms = steady_ms
        self.partitions: _Partitions = {}

    def update(
        self,
        wanted: Iterable[tuple[PartitionKey, WantedPartition]],
        forgotten: Iterable[PartitionKey],
    ) -> None:
        """Add, change and forget partitions."""
        for key, partition in wanted:
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(key, partition)
            else:
                cached.want(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def move_to_end(self, cached: CachedPartition) -> None:
        """Serve a partition after the others next time, because it had data this time."""
        key = cached.topic, cached.topic_id, cached.partition
        if self.partitions.pop(key, None) is not None:  # else another fetch has forgotten it
            self.partitions[key] = cached


class SessionLimits(NamedTuple):
    """The most sessions, and the most partitions in all sessions together."""

    slots: int
    partitions: int


class FetchSessions(Sessions[FetchSession]):
    """The sessions of a broker's consumers; ``partitions`` counts the partitions of all sessions.

    ``ended`` has the partitions of large sessions that have ended. A handler frees them in slices.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.partitions = 0
        self.ended: list[_Partitions] = []

    def create(
        self,
        wanted: Collection[tuple[PartitionKey, WantedPartition]],
        *,
        uses_topic_ids: bool,
        limits: SessionLimits,
        steady_ms: int,
        size: int = 0,
    ) -> FetchSession | None:
        """A new session; None if there is no room for ``size`` partitions, or for ``wanted``.

        The caller adds the partitions that aren't in ``wanted`` later, by ``update``.
        """
        size = max(size, len(wanted))
        if size > limits.partitions or not _are_short(wanted):
            return None
        while self.partitions + size > limits.partitions:
            if not self._evict_idle(steady_ms):
                return None
        if len(self._sessions) >= limits.slots and not (
            self._evict_idle(steady_ms) or self._evict_smaller(size)
        ):
            return None
        session = FetchSession(self.unused_id(), uses_topic_ids, steady_ms)
        self._sessions[session.session_id] = session
        self.update(session, wanted, (), limits)
        return session

    def update(
        self,
        session: FetchSession,
        wanted: Collection[tuple[PartitionKey, WantedPartition]],
        forgotten: Iterable[PartitionKey],
        limits: SessionLimits,
    ) -> None:
        """Add, change and forget partitions of a session.

        Raises KafkaError (FETCH_SESSION_ID_NOT_FOUND) if the session has ended, or if it outgrows
        the bound; then the session ends.
        """
        if self._sessions.get(session.session_id) is not session:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.partitions)
        session.update(wanted, forgotten)
        self.partitions += len(session.partitions) - before
        has_grown = len(session.partitions) > before
        if has_grown and (self.partitions > limits.partitions or not _are_short(wanted)):
            self.remove(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _evict_idle(self, steady_ms: int) -> bool:
        """Remove the least recently used session, if it was idle for long enough."""
        oldest = min(self._sessions.values(), key=attrgetter("used_ms"), default=None)
        if oldest is None or steady_ms - oldest.used_ms <= EVICTION_MS:
            return False
        self.remove(oldest.session_id)
        return True

    def _evict_smaller(self, size: int) -> bool:
        """Remove the smallest session that isn't new, if it is smaller than ``size``."""
        settled = [s for s in self._sessions.values() if s.used_ms - s.created_ms > EVICTION_MS]
        smallest = min(settled, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self.remove(smallest.session_id)
        return True

    def get(
        self, session_id: int, epoch: int, uses_topic_ids: bool, steady_ms: int
    ) -> FetchSession:
        """The session for the next incremental fetch; KafkaError as ``continued``."""
        session = self.continued(session_id, epoch, uses_topic_ids=uses_topic_ids)
        session.used_ms = steady_ms
        return session

    def remove(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.partitions)
            if len(session.partitions) > LARGE:
                self.ended.append(session.partitions)


def _are_short(wanted: Iterable[tuple[PartitionKey, WantedPartition]]) -> bool:
    """Whether no topic's name is longer than Kafka allows."""
    return all(len(key[0]) <= LONGEST_NAME for key, _ in wanted)
