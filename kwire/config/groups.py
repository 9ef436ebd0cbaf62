"""Checks the broker's settings of groups against each other.

Rules (GroupCoordinatorConfig of Kafka): a value lies between the broker's limits for it, the
heartbeat interval is shorter than the session timeout, and the classic protocol stays enabled.
"""

from collections.abc import Mapping

from kwire.config.settings import ConfigError, Value

LIMITED = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
)
"""Settings with limits: ``group.share.min.x`` and ``group.share.max.x`` limit ``group.share.x``."""

ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""The assignors of consumer groups by the names of Kafka's classes."""

STICKY_ASSIGNOR_CLASS = "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"
"""Kafka's class of the only assignor of streams groups."""

SIMPLE_ASSIGNOR_CLASS = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
"""Kafka's class of the only assignor of share groups."""


def assignors(values: Mapping[str, Value]) -> tuple[str, ...]:
    """The assignors that consumer groups may use, the default first."""
    named = values["group.consumer.assignors"]
    assert isinstance(named, list)
    return tuple(ASSIGNOR_CLASSES.get(name, name) for name in named)


def check_groups(values: Mapping[str, Value]) -> None:
    """Raise ConfigError if the settings of groups contradict each other."""
    for name in LIMITED:
        _check_limits(name, values)
    for kind in ("consumer", "share", "streams"):
        heartbeat = f"group.{kind}.heartbeat.interval.ms"
        session = f"group.{kind}.session.timeout.ms"
        if _number(values, heartbeat) >= _number(values, session):
            raise ConfigError(heartbeat, values[heartbeat], f"must be less than {session}")
    name = "group.share.assignors"
    if values[name] not in (["simple"], [SIMPLE_ASSIGNOR_CLASS]):
        raise ConfigError(name, values[name], "must be simple")
    _check_streams(values)
    known = set(ASSIGNOR_CLASSES.values())
    if not assignors(values) or not known.issuperset(assignors(values)):
        name = "group.consumer.assignors"
        raise ConfigError(name, values[name], f"must be one or more of {', '.join(sorted(known))}")
    name = "group.coordinator.rebalance.protocols"
    protocols = values[name]
    assert isinstance(protocols, list)
    if "classic" not in protocols:
        raise ConfigError(name, protocols, "must contain classic")


def _check_streams(values: Mapping[str, Value]) -> None:
    name = "group.streams.assignors"
    if values[name] not in (["sticky"], [STICKY_ASSIGNOR_CLASS]):
        raise ConfigError(name, values[name], "must be sticky")
    name, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if _number(values, name) > _number(values, most):
        raise ConfigError(name, values[name], f"must be at most {most}")
    name, least = (
        "group.streams.task.offset.interval.ms",
        "group.streams.min.task.offset.interval.ms",
    )
    if _number(values, name) < _number(values, least):
        raise ConfigError(name, values[name], f"must be at least {least}")


def _check_limits(name: str, values: Mapping[str, Value]) -> None:
    kind, _, rest = name.partition(".")
    least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    full_name = f"group.{name}"
    if _number(values, most) < _number(values, least):
        raise ConfigError(most, values[most], f"must be at least {least}")
    if not _number(values, least) <= _number(values, full_name) <= _number(values, most):
        raise ConfigError(full_name, values[full_name], f"must lie between {least} and {most}")


def _number(values: Mapping[str, Value], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value
