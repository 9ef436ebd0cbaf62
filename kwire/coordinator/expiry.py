"""Expiry of offsets (KIP-211).

Rules:

- An offset of a topic that a group reads doesn't expire. For other offsets, each group names the
  time from which their age counts, or none. Without a group, it is the time of the commit.
- If a commit named its own expiry time (OffsetCommit before version 5), that time counts.

Source: OffsetExpirationConditionImpl of Kafka.
"""

from collections.abc import Callable

from kwire.coordinator.group import Group
from kwire.coordinator.offsets import NO_EXPIRY, CommittedOffset


def has_expired(
    group: Group | None, offset: CommittedOffset, retention_ms: int, age_ms: Callable[[int], int]
) -> bool:
    """Whether an offset of an unread topic has expired; ``group`` is None if there is no group.

    ``age_ms`` gives the least time that has passed since a date.
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
