"""What a broker is for a partition, by the image; pure.

Rules:

- The only replica has the partition to itself: it serves it while it has the records, whether it is
  the leader at the moment or not, because nobody else has them.
- Of several replicas one leads, and the others follow it, or wait where nobody leads.
"""

from enum import Enum

from kwire.metadata.image import PartitionImage


class Role(Enum):
    """What a broker is for a partition."""

    NONE = "none"
    SOLE = "sole"
    LEADER = "leader"
    FOLLOWER = "follower"


def role_of(partition: PartitionImage | None, node_id: int) -> Role:
    """The role of a broker; None stands for a partition that doesn't exist."""
    if partition is None or node_id not in partition.replicas:
        return Role.NONE
    if len(partition.replicas) == 1:
        return Role.SOLE
    return Role.LEADER if partition.leader == node_id else Role.FOLLOWER


def may_begin(partition: PartitionImage, node_id: int) -> bool:
    """Whether a replica without a log may make an empty one.

    The only replica may not while the ISR is empty: its records are lost, and an empty log would
    look as if they had never been there. A follower's log becomes right by following.
    """
    return bool(partition.isr) or role_of(partition, node_id) is Role.FOLLOWER
