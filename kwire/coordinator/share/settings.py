"""The settings of a share group: the broker's settings, or the group's own if it has any."""

from typing import NamedTuple

LONGEST_MEMBER_ID = 36
"""In characters. Clients make their own ids, which are UUIDs."""


class ShareSettings(NamedTuple):
    """Kafka's defaults; times in ms. The names are those of ``group.share.*``."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initialize_retry_interval_ms: int = 30_000
    max_size: int = 200
