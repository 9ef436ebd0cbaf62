"""The fetch sessions of followers, on their leader: which partitions each follower fetches, and
where it is in each.

Rules:

- A session has a set of *dirty* partitions: those that may have news for the follower. A partition
  becomes dirty by an append, by a new high watermark or log start offset, by a change of its
  leadership, and when the follower names it in a request. A fetch reads dirty partitions only, and
  removes partitions without news from the set. So a fetch costs as much as has changed, however
  many partitions the session has.
- The set is ordered. A partition whose records were sent moves to the end.
- Session ids and epochs are those of ``kwire.broker.fetch_sessions``. A broker has one session for
  each of its fetchers. After its restart, its new registration ends its older sessions.
- All sessions together have at most ``kwire.fetch.session.cache.max.partitions`` partitions.
"""

from collections.abc import Callable
from math import inf
from random import Random

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.fetch_sessions import NO_SESSION, PartitionKey, Session, Sessions
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.segment import LogSegment
from kwire.protocol.messages.fetch import FetchPartition, PartitionData

WATERMARK_DELAY_S = 0.005
"""How long a follower waits for a new high watermark that no records bring along."""

MOST_OF_A_BROKER = 16
"""The most sessions of one broker. It needs ``num.replica.fetchers``, and while those end and begin
again, twice as many."""

UNKNOWN = -1
"""An offset or an epoch that isn't known."""

NOT_TOLD = 0x7FFFFFFFFFFFFFFF
"""Stands for the high watermark of a follower that does not report it: no later one is news to
it."""


class Tail:
    """The last read position of a follower: ``offset`` and all after it lie at ``position`` in the
    file.
    """

    __slots__ = ("offset", "position", "segment")

    def __init__(self, segment: LogSegment, offset: int, position: int) -> None:
        self.segment = segment
        self.offset = offset
        self.position = position


class ReplicaPosition:
    """A partition of a session: the follower's position, and the last values that it was sent.

    ``partition`` is None until the leader is found, and after it leads no longer. ``is_new`` says
    that the follower has named the partition, and the leader has not yet processed what it said.
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "is_new",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "session",
        "tail",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(self, key: PartitionKey, session: "ReplicaSession") -> None:
        self.key = key
        self.session = session
        self.partition: LeaderPartition | None = None
        self.tail: Tail | None = None
        self.told_high_watermark = self.told_log_start_offset = UNKNOWN
        self.current_leader_epoch = self.fetch_offset = UNKNOWN

    def want(
        self,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        max_bytes: int,
        high_watermark: int = NOT_TOLD,
    ) -> None:
        """Store what the follower says about the partition.

        A follower with another leader epoch, or behind its earlier position, has ignored the last
        answer. So the follower gets all values again.
        """
        if leader_epoch != self.current_leader_epoch or fetch_offset < self.fetch_offset:
            self.told_high_watermark = self.told_log_start_offset = UNKNOWN
        self.current_leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes
        self.high_watermark = high_watermark
        self.is_new = True
        self.session.dirty[self] = None

    def record_answer(self, data: PartitionData) -> None:
        """Store the values that the response sends to the follower.

        A follower that gets a diverging epoch truncates its log and ignores all other values of the
        response. So the next response sends them again.
        """
        is_cut = data.diverging_epoch is not None
        self.told_high_watermark = UNKNOWN if is_cut else data.high_watermark
        self.told_log_start_offset = UNKNOWN if is_cut else data.log_start_offset

    def bind(self, partition: LeaderPartition) -> None:
        """Make the leader report changes of the partition from now on."""
        if self.partition is not partition:
            self.release()
            self.partition = partition
            partition.replica_waiters[self] = None
            self.is_new = True

    def release(self) -> None:
        """Make the leader stop reporting changes."""
        if self.partition is not None:
            self.partition.replica_waiters.pop(self, None)
            self.partition = self.tail = None

    @property
    def lacks_watermark(self) -> bool:
        """Whether the follower reports an older high watermark than the leader's, and was not sent
        that yet.
        """
        partition = self.partition
        return (
            partition is not None
            and self.high_watermark < partition.high_watermark
            and self.told_high_watermark < partition.high_watermark
        )

    def changed(self, is_urgent: bool) -> None:
        """See ``followers.ReplicaWaiter``. A new high watermark has to be told soon to followers
        that report theirs.
        """
        session = self.session
        session.dirty[self] = None
        if session.change is None:
            return
        if is_urgent:
            session.change.set()
        elif self.high_watermark != NOT_TOLD:
            session.hasten()

    def lost(self) -> None:
        """See ``followers.ReplicaWaiter``. The next fetch of the partition gets the error."""
        self.partition = self.tail = None
        self.changed(True)


class ReplicaSession(Session):
    """One session of a follower. ``change`` is the fetch that waits for news.

    ``asked_s`` is the time on trio's clock when the newest fetch arrived.
    """

    __slots__ = (
        "asked_s",
        "broker_epoch",
        "change",
        "dirty",
        "node_id",
        "positions",
    )

    def __init__(self, node_id: int, broker_epoch: int, *, uses_topic_ids: bool) -> None:
        super().__init__(NO_SESSION, uses_topic_ids=uses_topic_ids)
        self.asked_s = -inf
        self.node_id = node_id
        self.broker_epoch = broker_epoch
        self.positions: dict[PartitionKey, ReplicaPosition] = {}
        self.dirty: dict[ReplicaPosition, None] = {}
        self.change: Delayed | None = None

    def arrives(self, now_s: float, max_wait_ms: int) -> float:
        """Note that a fetch arrives now; the time at which it has to be answered."""
        self.asked_s = now_s
        return now_s + max(max_wait_ms, 0) / 1000

    def hasten(self) -> None:
        """Answer the fetch that waits in ``WATERMARK_DELAY_S`` at the latest."""
        assert self.change is not None
        self.change.hasten(trio.current_time() + WATERMARK_DELAY_S)

    def want(self, key: PartitionKey, wanted: FetchPartition) -> None:
        """Add a partition, or change it."""
        position = self.positions.get(key)
        if position is None:
            position = self.positions[key] = ReplicaPosition(key, self)
        position.want(
            wanted.current_leader_epoch,
            wanted.fetch_offset,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
            wanted.partition_max_bytes,
            wanted.high_watermark,
        )

    def forget(self, key: PartitionKey) -> None:
        """Remove a partition from the session."""
        position = self.positions.pop(key, None)
        if position is not None:
            position.release()
            self.dirty.pop(position, None)

    def renew(self, broker_epoch: int) -> None:
        """Take the new epoch of the follower's broker, which has registered again. Its positions
        stay valid.
        """
        self.broker_epoch = broker_epoch
        for position in self.positions.values():
            position.is_new = True
            self.dirty[position] = None

    def move_to_end(self, position: ReplicaPosition) -> None:
        """Read a partition after all others in the next fetch."""
        del self.dirty[position]
        self.dirty[position] = None

    def end(self) -> None:
        """Release every partition, and wake the fetch that waits."""
        for position in self.positions.values():
            position.release()
        self.positions = {}
        self.dirty = {}
        if self.change is not None:
            self.change.set()


class ReplicaSessions(Sessions[ReplicaSession]):
    """The sessions of a leader's followers."""

    def __init__(self, random: Random, setting: Callable[[str], int]) -> None:
        super().__init__(random)
        self._setting = setting

    def keep(self, session: ReplicaSession) -> None:
        """Give a session an id, unless all sessions have too many partitions. Older sessions may be
        ended for it.
        """
        for other in list(self._sessions.values()):
            is_older = other.broker_epoch < session.broker_epoch
            if other.node_id == session.node_id and is_older:
                self.remove(other.session_id)
        own = [one for one in self._sessions.values() if one.node_id == session.node_id]
        if len(own) >= MOST_OF_A_BROKER:
            self.remove(own[0].session_id)
        session.session_id = self.unused_id()
        self._sessions[session.session_id] = session
        if not self._fits():
            del self._sessions[session.session_id]
            session.session_id = NO_SESSION

    def get(
        self, session_id: int, epoch: int, node_id: int, *, uses_topic_ids: bool
    ) -> ReplicaSession:
        """The session for the next fetch of a follower; KafkaError as ``continued``.

        One session has one fetch at a time, and belongs to one broker.
        """
        session = self._sessions.get(session_id)
        if session is not None and session.node_id != node_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session is not None and session.change is not None:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return self.continued(session_id, epoch, uses_topic_ids=uses_topic_ids)

    def check_room(self, session: ReplicaSession) -> None:
        """End a session that has become too large; KafkaError (FETCH_SESSION_ID_NOT_FOUND)."""
        if not self._fits():
            self.remove(session.session_id)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def _fits(self) -> bool:
        kept = sum(len(session.positions) for session in self._sessions.values())
        return kept <= self._setting("kwire.fetch.session.cache.max.partitions")

    def remove(self, session_id: int) -> None:
        """End a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()
