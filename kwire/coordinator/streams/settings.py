"""The settings of a streams group: the broker's settings, or the group's own if it has any."""

from typing import NamedTuple

STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_TAGS = "rack.aware.assignment.tags"


class StreamsSettings(NamedTuple):
    """Kafka's defaults; times in ms. The names are those of ``group.streams.*``.

    ``task_offset_interval_ms`` and ``acceptable_recovery_lag`` are for the members, which are told
    them: the broker itself has no use for them, here as in Kafka 4.4.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = (1 << 31) - 1
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    assignor: str = "sticky"

    @property
    def assignment_configs(self) -> dict[str, str]:
        """The configs of an assignment, as the group's record has them: a change assigns anew."""
        configs = {STANDBY_REPLICAS: str(self.standby_replicas)}
        if self.rack_aware_tags:
            configs[RACK_AWARE_TAGS] = ",".join(self.rack_aware_tags)
        return configs
