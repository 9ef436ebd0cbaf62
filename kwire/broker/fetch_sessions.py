"""Fetch sessions (KIP-227): the broker remembers what a client fetches and tells only what changed.

Rules:

- Session id 0 is no session; epoch 0 asks for a new one, epoch -1 for none (and ends the one
  named).
- Epochs count up from 1 with each fetch and wrap to 1; another epoch is
  INVALID_FETCH_SESSION_EPOCH, an id nobody knows FETCH_SESSION_ID_NOT_FOUND.
- There are at most ``max.incremental.fetch.session.cache.slots`` of them; when all are taken, the
  one that was used longest ago makes room if that was two minutes ago. Otherwise the client gets
  none.
"""

from collections.abc import Iterable
from random import Random

from kwire.broker.partition import Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import FetchPartition, PartitionData

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
MAX_ID = 0x7FFFFFFF

PartitionKey = tuple[str, bytes, int]
"""Topic name (empty in versions with ids), topic id, partition."""


class CachedPartition:
    """What a client wants of a partition, and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "partition", "wanted")

    def __init__(self, wanted: FetchPartition) -> None:
        self.wanted = wanted
        self.partition: Partition | None = None
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def is_quiet(self) -> bool:
        """Whether a look at the partition would find nothing that the client doesn't know.

        A fast path: in a session with many partitions nearly all are quiet, and this is all that
        they cost. Its slow twin is to look and then ask ``is_news``; that clients know the same in
        the end as without a session, tests/handlers/test_fetch_sessions.py shows.
        """
        partition = self.partition
        return (
            partition is not None
            and self.wanted.fetch_offset == partition.high_watermark == self.high_watermark
            and self.log_start_offset == partition.log.log_start_offset
            and self.wanted.current_leader_epoch in (-1, partition.leader_epoch)
            and not partition.is_deleted
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

    __slots__ = ("epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, steady_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.used_ms = steady_ms
        self.partitions: dict[PartitionKey, CachedPartition] = {}

    def update(
        self,
        wanted: Iterable[tuple[PartitionKey, FetchPartition]],
        forgotten: Iterable[PartitionKey],
    ) -> None:
        """Add, change and forget partitions."""
        for key, partition in wanted:
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.wanted = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def move_to_end(self, key: PartitionKey) -> None:
        """A partition that had data is served after the others next time."""
        self.partitions[key] = self.partitions.pop(key)


class FetchSessions:
    """Every session of a broker."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def create(self, uses_topic_ids: bool, slots: int, steady_ms: int) -> FetchSession | None:
        """A new session, None when there is no room."""
        if len(self._sessions) >= slots and not self._evict(steady_ms):
            return None
        session_id = self._random.randint(1, MAX_ID)
        while session_id in self._sessions:
            session_id = self._random.randint(1, MAX_ID)
        session = FetchSession(session_id, uses_topic_ids, steady_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, steady_ms: int) -> bool:
        """Remove the session that wasn't used for longest, if it wasn't for long enough."""
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda session: session.used_ms)
        if steady_ms - oldest.used_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
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
        self._sessions.pop(session_id, None)

    def __len__(self) -> int:
        return len(self._sessions)
