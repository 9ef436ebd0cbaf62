"""Share sessions: a member's partitions on one broker, so that requests name only changes.

Rules:

- A member of a group has one session on each broker. Epoch 0 begins it, which ends an earlier one;
  -1 ends it. In between, epochs count up from 1 and wrap to 1. Any other epoch is
  INVALID_SHARE_SESSION_EPOCH, an unknown session SHARE_SESSION_NOT_FOUND.
- There are at most as many sessions, with as many partitions, as ``SessionLimits`` says. Who comes
  later gets SHARE_SESSION_LIMIT_REACHED. No session is evicted for another: that would release its
  records.
- A session ends with its connection.

Source: ShareSessionCache, SharePartitionManager of Kafka.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
LAST_EPOCH = 0x7FFFFFFF

TopicPartition = tuple[bytes, int]
"""Topic id, partition."""


class SessionLimits(NamedTuple):
    """How many sessions, and how many partitions all of them may have."""

    sessions: int
    partitions: int


class ShareSession:
    """A member's session; ``epoch`` is the one that its next request has to have."""

    __slots__ = ("connection_is_gone", "epoch", "group_id", "member_id", "partitions")

    def __init__(
        self, group_id: str, member_id: str, connection_is_gone: Callable[[], bool]
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection_is_gone = connection_is_gone
        self.epoch = 1
        self.partitions: dict[TopicPartition, None] = {}


class ShareSessions:
    """The sessions of all members on one broker."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: dict[str, int] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Whether a member has a session."""
        return (group_id, member_id) in self._sessions

    def has_group(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return group_id in self._of_group

    def begin(
        self,
        group_id: str,
        member_id: str,
        limits: SessionLimits,
        connection_is_gone: Callable[[], bool],
    ) -> ShareSession:
        """A new session; KafkaError (SHARE_SESSION_LIMIT_REACHED)."""
        self.remove(group_id, member_id)
        if len(self._sessions) >= limits.sessions:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, connection_is_gone)
        self._sessions[group_id, member_id] = session
        self._of_group[group_id] = self._of_group.get(group_id, 0) + 1
        return session

    def next(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a request; its epoch counts up, unless the request ends it.

        KafkaError: SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = 1 if epoch == LAST_EPOCH else epoch + 1
        return session

    def add(
        self, session: ShareSession, partitions: Iterable[TopicPartition], limits: SessionLimits
    ) -> None:
        """Add partitions; KafkaError (SHARE_SESSION_LIMIT_REACHED), and then the session ends.

        KafkaError (SHARE_SESSION_NOT_FOUND) if another request has ended it meanwhile.
        """
        self._check_open(session)
        for one in partitions:
            if one not in session.partitions:
                if self._partitions >= limits.partitions:
                    self.remove(session.group_id, session.member_id)
                    raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
                session.partitions[one] = None
                self._partitions += 1

    def forget(self, session: ShareSession, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions; KafkaError (SHARE_SESSION_NOT_FOUND) as for ``add``."""
        self._check_open(session)
        for one in partitions:
            if one in session.partitions:
                del session.partitions[one]
                self._partitions -= 1

    def _check_open(self, session: ShareSession) -> None:
        if self._sessions.get((session.group_id, session.member_id)) is not session:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)

    def remove(self, group_id: str, member_id: str) -> ShareSession | None:
        """End a session, if there is one."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            self._partitions -= len(session.partitions)
            self._of_group[group_id] -= 1
            if not self._of_group[group_id]:
                del self._of_group[group_id]
        return session

    def remove_gone(self) -> list[ShareSession]:
        """End the sessions whose connections are gone."""
        gone = [one for one in self._sessions.values() if one.connection_is_gone()]
        for session in gone:
            self.remove(session.group_id, session.member_id)
        return gone
