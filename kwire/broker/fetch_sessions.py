"""Fetch sessions (KIP-227): the broker remembers what a client fetches and tells only what changed.

Rules:

- Session id 0 is no session; epoch 0 asks for a new one, epoch -1 for none (and ends the one
  named).
- Epochs count up from 1 with each fetch and wrap to 1; another epoch is
  INVALID_FETCH_SESSION_EPOCH, an id nobody knows FETCH_SESSION_ID_NOT_FOUND.
- There are at most ``max.incremental.fetch.session.cache.slots`` of them. When all are taken, the
  one that was used longest ago makes room if that was more than two minutes ago, or else the
  smallest of those that have been used for more than two minutes, if it is smaller than the new
  one. Otherwise the client gets none.
- All of them together have at most ``kwire.fetch.session.cache.max.partitions``. A client whose new
  session doesn't fit, even when those that are idle have made room, gets none. A session that
  outgrows the bound ends: the client begins anew.
- A topic's name that is longer than names may be isn't remembered: such a client gets no session.
- A session keeps names and numbers. It reaches a partition by a reference that a deletion empties,
  so that a topic's logs are gone when the topic is, whether or not the client fetches again.

Source: FetchSessionCacheShard of Kafka.
"""

from collections.abc import Collection, Iterable
from operator import attrgetter
from random import Random
from typing import NamedTuple, Protocol

from kwire.broker.partition import NOWHERE, Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_ID = 0x7FFFFFFF
LONGEST_NAME = 249
"""Of a topic."""

PartitionKey = tuple[str, bytes, int]
"""Topic name (empty in versions with ids), topic id, partition."""


class WantedPartition(Protocol):
    """What a client wants of a partition: ``FetchPartition`` is one, ``CachedPartition`` too."""

    current_leader_epoch: int
    fetch_offset: int
    partition_max_bytes: int


class CachedPartition:
    """What a client wants of a partition, and what it was told last.

    ``reference`` leads to the partition that answered.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "log_start_offset",
        "partition_max_bytes",
        "reference",
    )

    def __init__(self, wanted: WantedPartition) -> None:
        self.reference = NOWHERE
        self.high_watermark = -1
        self.log_start_offset = -1
        self.want(wanted)

    def want(self, wanted: WantedPartition) -> None:
        """The client wants this from now on."""
        self.current_leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.partition_max_bytes = wanted.partition_max_bytes

    def answered_by(self, partition: Partition) -> None:
        """Remember which partition answered, without keeping it."""
        self.reference = partition.reference

    @property
    def is_quiet(self) -> bool:
        """Whether a look at the partition would find nothing that the client doesn't know.

        A fast path: in a session with many partitions nearly all are quiet, and this is all that
        they cost. Its slow twin is to look and then ask ``is_news``; that clients know the same in
        the end as without a session, tests/handlers/test_fetch_sessions.py shows.
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
        """Whether the client doesn't know this yet; what it is told is remembered."""
        has_records = told.records is not None and not (
            isinstance(told.records, bytes) and not told.records
        )
        news = bool(
            has_records
            or told.error_code
            or told.high_watermark != self.high_watermark
            or told.log_start_offset != self.log_start_offset
        )
        # After an error everything is news again.
        self.high_watermark = -1 if told.error_code else told.high_watermark
        self.log_start_offset = -1 if told.error_code else told.log_start_offset
        return news


class FetchSession:
    """One session; ``partitions`` are in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, steady_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.created_ms = self.used_ms = steady_ms
        self.partitions: dict[PartitionKey, CachedPartition] = {}

    def update(
        self,
        wanted: Iterable[tuple[PartitionKey, WantedPartition]],
        forgotten: Iterable[PartitionKey],
    ) -> None:
        """Add, change and forget partitions."""
        for key, partition in wanted:
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.want(partition)
        for key in forgotten:
            self.partitions.pop(key, None)

    def move_to_end(self, key: PartitionKey) -> None:
        """A partition that had data is served after the others next time."""
        self.partitions[key] = self.partitions.pop(key)


class SessionLimits(NamedTuple):
    """How many sessions there may be, and how many partitions in all of them."""

    slots: int
    partitions: int


class FetchSessions:
    """Every session of a broker; ``partitions`` is how many they have together."""

    def __init__(self, random: Random) -> None:
        self.partitions = 0
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def create(
        self,
        wanted: Collection[tuple[PartitionKey, WantedPartition]],
        *,
        uses_topic_ids: bool,
        limits: SessionLimits,
        steady_ms: int,
        size: int = 0,
    ) -> FetchSession | None:
        """A new session, None when there is no room for ``size`` partitions, or for ``wanted``.

        The caller adds those of them that aren't ``wanted`` here by ``update``.
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
        session_id = self._random.randint(1, MAX_ID)
        while session_id in self._sessions:
            session_id = self._random.randint(1, MAX_ID)
        session = FetchSession(session_id, uses_topic_ids, steady_ms)
        self._sessions[session_id] = session
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

        KafkaError (FETCH_SESSION_ID_NOT_FOUND) for a session that has ended, and for one that
        outgrows the bound, which ends by that.
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
        """Remove the session that wasn't used for longest, if it wasn't for long enough."""
        oldest = min(self._sessions.values(), key=attrgetter("used_ms"), default=None)
        if oldest is None or steady_ms - oldest.used_ms <= EVICTION_MS:
            return False
        self.remove(oldest.session_id)
        return True

    def _evict_smaller(self, size: int) -> bool:
        """Remove the smallest session that isn't new, if it is smaller than this size."""
        settled = [s for s in self._sessions.values() if s.used_ms - s.created_ms > EVICTION_MS]
        smallest = min(settled, key=lambda session: len(session.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        self.remove(smallest.session_id)
        return True

    def get(
        self, session_id: int, epoch: int, uses_topic_ids: bool, steady_ms: int
    ) -> FetchSession:
        """The session for the next incremental fetch.

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
        session.used_ms = steady_ms
        return session

    def remove(self, session_id: int) -> None:
        """End a session, if it is there."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.partitions -= len(session.partitions)

    def __len__(self) -> int:
        return len(self._sessions)


def _are_short(wanted: Iterable[tuple[PartitionKey, WantedPartition]]) -> bool:
    """Whether every topic has a name that topics may have."""
    return all(len(key[0]) <= LONGEST_NAME for key, _ in wanted)
