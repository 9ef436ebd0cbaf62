"""The role of a broker for a partition, as the metadata image gives it; pure.

Rules:

- A partition with one replica is served by that broker while it has the records, even if it isn't
  the leader at the moment: nobody else has them.
- Of several replicas, one leads and the others follow it. While nobody leads, they wait.
"""

from enum import Enum

from kwire.metadata.image import PartitionImage


class Role(Enum):
    """The role of a broker for a partition."""

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
    """Whether a replica that has no log may create an empty one.

    An only replica may not while the ISR is empty: its records are lost, and an empty log would
    look as if there had never been any. A follower may, because it copies the leader's records.
    """
    return bool(partition.isr) or role_of(partition, node_id) is Role.FOLLOWER
