"""The broker's settings for a group coordinator."""

from typing import NamedTuple


class GroupSettings(NamedTuple):
    """Kafka's defaults; times in ms. The names are those of the broker's settings.

    ``max_count`` is ``kwire.group.max.count``: Kafka has no limit for the groups of a coordinator.
    """

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = (1 << 31) - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 604_800_000
    max_count: int = (1 << 31) - 1
