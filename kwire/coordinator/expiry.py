"""Which offsets have been kept long enough (KIP-211), and which topics a group still reads.

Rules:

- A stable ``consumer`` group keeps the offsets of the topics it subscribes to; its others expire by
  their own age. Any other group that has members keeps all of them.
- The time of an empty group's offsets counts from when it became empty, or from a later commit.
- An offset whose commit said when it expires (OffsetCommit before version 5) goes by that.

Source: ClassicGroup.offsetExpirationCondition of Kafka; Kafka takes no notice of a commit that came
after the group had become empty, so that an offset which an operator has just reset may vanish.
"""

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.offsets import NO_EXPIRY, CommittedOffset
from kwire.protocol.codec import MalformedRequest, decoder
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics that the members of a ``consumer`` group read; None if nobody can tell."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    decode = decoder(ConsumerProtocolSubscription, 0)
    for member in group.members.values():
        try:
            # An int16 comes first, the version; every later version begins as version 0 does.
            topics.update(decode(member.metadata(group.protocol), 2)[0].topics)
        except MalformedRequest:
            return None
    return topics


def kept_topics(group: ClassicGroup) -> set[str] | None:
    """The topics whose offsets can't expire while the group is as it is; None: all of them."""
    if group.state is GroupState.EMPTY:
        return set()
    if group.state is GroupState.STABLE:
        return subscribed_topics(group)
    return None


def has_expired(
    group: ClassicGroup | None, offset: CommittedOffset, retention_ms: int, now_ms: int
) -> bool:
    """Whether an offset, of a topic that isn't kept, is past its time; no group: commits only."""
    if offset.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms
    if group is not None and group.protocol_type and group.state is GroupState.EMPTY:
        since_ms = max(since_ms, group.state_since_ms)
    return now_ms - since_ms >= retention_ms
