"""A partition's followers as their leader knows them, and who waits for a leader.

Rule: all that a leader knows of a follower is from its fetches in this leader epoch.
"""

from typing import Protocol

UNKNOWN = -1


class ReplicaWaiter(Protocol):
    """A follower's session that has a partition."""

    def changed(self, is_urgent: bool) -> None:
        """Note that there may be news; if urgent, a fetch that waits is to answer."""

    def lost(self) -> None:
        """Note that the partition is led here no longer."""


class Follower:
    """What a follower's fetches in this leader epoch have told; -1 is unknown.

    ``is_caught_up`` says whether it reached the log end offset lately, ``holds`` whether the high
    watermark waits for it.
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
        """Forget where the follower was: only another fetch says that it has anything."""
        self.end_offset = UNKNOWN
        self.is_caught_up = False


class NoUpdates:
    """Nobody changes the ISR; every broker is active, and this one is never cut off."""

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
