"""Which offsets have been kept long enough (KIP-211).

Rules:

- Offsets of topics that a group reads don't expire; of the others each group says from when on
  their age counts, if it does. For a client that only commits it is the commit.
- An offset whose commit said when it expires (OffsetCommit before version 5) goes by that.

Source: OffsetExpirationConditionImpl of Kafka.
"""

from collections.abc import Callable

from kwire.coordinator.group import Group
from kwire.coordinator.offsets import NO_EXPIRY, CommittedOffset


def has_expired(
    group: Group | None, offset: CommittedOffset, retention_ms: int, age_ms: Callable[[int], int]
) -> bool:
    """Whether an offset, of a topic that isn't read, is past its time; no group: commits only.

    ``age_ms`` says how long ago a date was, at least.
    """
    since_ms: int | None = offset.commit_timestamp_ms
    if group is not None:
        since_ms = group.offset_age_since_ms(offset.commit_timestamp_ms)
    if since_ms is None:
        return False
    if offset.expire_timestamp_ms != NO_EXPIRY:
        retention_ms = offset.expire_timestamp_ms - offset.commit_timestamp_ms
        return age_ms(offset.commit_timestamp_ms) >= retention_ms
    return age_ms(since_ms) >= retention_ms
