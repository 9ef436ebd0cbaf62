"""A member of a group of the classic protocol.

Source: ClassicGroupMember.
"""

from kwire.coordinator.effects import Waiter

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member offers, most preferred first, with its subscription for each."""


class Member:
    """A member; ``joining`` and ``syncing`` are the waiters for its answers.

    ``is_new`` is true until the end of its first rebalance. Until then the member doesn't know its
    id, and can't send heartbeats.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_deadline_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.joining: Waiter | None = None
        self.syncing: Waiter | None = None
        self.is_new = False
        self.session_deadline_ms = 0

    @property
    def counts_as_heard(self) -> bool:
        """Whether the session can't end, because the member waits for an answer of the group."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def renew_session(self, now_ms: int) -> None:
        """Begin the member's session anew, because a request of the member has arrived."""
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def metadata(self, protocol: str | None) -> bytes:
        """The member's subscription for a protocol; empty if it doesn't offer the protocol."""
        for name, data in self.protocols:
            if name == protocol:
                return data
        return b""

    def vote(self, candidates: set[str]) -> str:
        """The candidate that this member prefers."""
        return next(name for name, _ in self.protocols if name in candidates)
