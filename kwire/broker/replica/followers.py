"""A partition's followers as its leader knows them, and protocols for sessions that wait for it.

Rule: the leader learns everything about a follower from its fetches in the current leader epoch.
"""

from typing import Protocol

UNKNOWN = -1


class ReplicaWaiter(Protocol):
    """A follower's session, as the partition's leader calls it."""

    def changed(self, is_urgent: bool) -> None:
        """Report possible news. If it is urgent, a waiting fetch is answered."""

    def lost(self) -> None:
        """Report that this broker leads the partition no longer."""


class Follower:
    """A follower as its fetches in this leader epoch describe it; -1 means unknown.

    ``is_caught_up`` says whether it has reached the log end offset lately. ``holds`` says whether
    the high watermark waits for it.
    """

    __slots__ = (
        "broker_epoch",
        "end_offset",
        "holds",
        "is_caught_up",
        "is_in_maximal_isr",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.is_caught_up = False
        self.is_in_maximal_isr = False
        self.holds = False

    def forget(self) -> None:
        """Forget the follower's position. Until its next fetch, it counts as having no records."""
        self.end_offset = UNKNOWN
        self.is_caught_up = False


class NoUpdates:
    """Answers for a broker without a cluster: nobody changes the ISR, every broker is active, and
    this broker is never cut off from the metadata store.
    """

    is_cut_off = False

    def refuses(self, partition: object, required_acks: int) -> bool:
        """False for every partition."""
        return False

    def surely_leads(self, partition: object) -> bool:
        """True for every partition."""
        return True

    def is_active(self, node_id: int) -> bool:
        """True for every broker."""
        return True

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """True for every broker."""
        return True

    def wanted(self, partition: object) -> None:
        """Do nothing."""
