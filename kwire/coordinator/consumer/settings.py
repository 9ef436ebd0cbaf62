"""The settings of a consumer group: the broker's settings, or the group's own if it has any."""

from enum import Enum
from typing import NamedTuple


class MigrationPolicy(Enum):
    """Which conversions between the two protocols are allowed while a group has members."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group becomes a consumer group if a member of that protocol joins."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group becomes classic if only classic members remain."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ConsumerSettings(NamedTuple):
    """Kafka's defaults; times in ms. The names are those of ``group.consumer.*``.

    ``classic_max_size`` is ``group.max.size``, for groups that become classic groups.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = (1 << 31) - 1
    classic_max_size: int = (1 << 31) - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
