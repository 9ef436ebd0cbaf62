"""Share sessions: a member's partitions on one broker, so that requests name only changes.

Rules:

- A member of a group has one session on each broker. Epoch 0 begins it, which ends an earlier one;
  -1 ends it. In between, epochs count up from 1 and wrap to 1. Any other epoch is
  INVALID_SHARE_SESSION_EPOCH, an unknown session SHARE_SESSION_NOT_FOUND.
- There are at most as many sessions, with as many partitions, as ``SessionLimits`` says. If there
  is no room, who has most of it loses the largest session: the connection, or else the principal
  that has most, but only if they have more than who asks has then. What the session held is
  released. Otherwise SHARE_SESSION_LIMIT_REACHED is the answer. So nobody keeps all sessions
  from others, and members with a connection each don't drive each other out. Kafka ends no session
  for another.
- A session ends with its connection.

Source: ShareSessionCache, SharePartitionManager of Kafka.
"""

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
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


class Client(NamedTuple):
    """Who begins a session; ``is_gone`` says whether the connection has ended."""

    connection_id: int
    principal: str
    is_gone: Callable[[], bool]


class ShareSession:
    """A member's session; ``epoch`` is the one that its next request has to have."""

    __slots__ = ("client", "epoch", "group_id", "member_id", "partitions")

    def __init__(self, group_id: str, member_id: str, client: Client) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.client = client
        self.epoch = 1
        self.partitions: dict[TopicPartition, None] = {}


_OWNERS: tuple[Callable[[ShareSession], Hashable], ...] = (
    attrgetter("client.connection_id"),
    attrgetter("client.principal"),
)


class ShareSessions:
    """The sessions of all members on one broker.

    ``evicted`` gets each session that ends for another: what it held is to be released.
    """

    def __init__(self, evicted: Callable[[ShareSession], object]) -> None:
        self._evicted = evicted
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._of_group: dict[str, int] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Whether a member has a session."""
        return (group_id, member_id) in self._sessions

    def of_member(self, group_id: str, member_id: str) -> ShareSession | None:
        """A member's session, None if it has none."""
        return self._sessions.get((group_id, member_id))

    def has_group(self, group_id: str) -> bool:
        """Whether any member of a group has a session."""
        return group_id in self._of_group

    def begin(
        self,
        group_id: str,
        member_id: str,
        limits: SessionLimits,
        client: Client,
    ) -> ShareSession:
        """A new session; KafkaError (SHARE_SESSION_LIMIT_REACHED)."""
        self.remove(group_id, member_id)
        session = ShareSession(group_id, member_id, client)
        if len(self._sessions) >= limits.sessions:
            self._make_room(session, lambda one: 1)
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
                    try:
                        self._make_room(session, lambda one: len(one.partitions))
                    except KafkaError:
                        self.remove(session.group_id, session.member_id)
                        raise
                session.partitions[one] = None
                self._partitions += 1

    def _make_room(self, asking: ShareSession, size: Callable[[ShareSession], int]) -> None:
        """Evict the largest one that who has most has; KafkaError (SHARE_SESSION_LIMIT_REACHED)."""
        for owner in _OWNERS:
            sizes: dict[Hashable, int] = {}
            largest: dict[Hashable, ShareSession] = {}
            for session in self._sessions.values():
                of = owner(session)
                sizes[of] = sizes.get(of, 0) + size(session)
                if of not in largest or size(session) >= size(largest[of]):
                    largest[of] = session
            most = max(sizes, key=sizes.__getitem__, default=None)
            if most is not None and sizes[most] > sizes.get(owner(asking), 0) + 1:
                ending = largest[most]
                self.remove(ending.group_id, ending.member_id)
                self._evicted(ending)
                return
        raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)

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
        gone = [one for one in self._sessions.values() if one.client.is_gone()]
        for session in gone:
            self.remove(session.group_id, session.member_id)
        return gone
