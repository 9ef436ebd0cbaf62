"""Checks which configs a resource may have: their names, their values, and values that must agree.

Rules:

- A topic, a group and a client-metrics subscription may have the configs of their scope only.
- A broker accepts config names that it doesn't know, because a plugin or a client may read them. It
  accepts its own configs if they can change while it runs. The configs of a listener can't change
  in a running kwire.
- A group's timeouts lie between the broker's limits for them.

Source: LogConfig.validate, GroupConfig.validate, DynamicBrokerConfig.validate and
ClientMetricsConfigs.validate of Kafka.
"""

from collections.abc import Iterable, Mapping

from kwire.config.settings import (
    BROKER,
    CLIENT_METRICS,
    DYNAMIC_BROKER,
    GROUP,
    PER_BROKER,
    READ_ONLY,
    TOPIC,
    ConfigError,
    Setting,
    Value,
    settings,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import ConfigResourceType

SCOPES = {
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.BROKER: BROKER,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}

_GROUP_LIMITS = {"streams.num.standby.replicas": "group.streams.max.standby.replicas"}
"""The broker's upper limits whose names don't follow from the name of the group's config."""


def find_setting(kind: ConfigResourceType, name: str) -> Setting | None:
    """The setting of this name for this kind of resource; None for an unknown name."""
    setting = settings(SCOPES[kind]).get(name)
    if setting is None and kind is ConfigResourceType.BROKER:
        return settings(DYNAMIC_BROKER).get(name)
    return setting


def check_configs(
    kind: ConfigResourceType, configs: Mapping[str, str], broker: Mapping[str, Value]
) -> None:
    """Raise KafkaError (INVALID_CONFIG) unless a topic, group or subscription may have ``configs``.

    ``broker`` are the broker's effective settings, which include the limits for groups.
    """
    try:
        values = {name: _parse(kind, name, text) for name, text in configs.items()}
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if kind is ConfigResourceType.TOPIC:
        _check_topic(values)
    elif kind is ConfigResourceType.GROUP:
        for name, value in values.items():
            _check_group_limits(name, value, broker)
        _check_heartbeats(values, broker)


def check_broker_configs(configs: Mapping[str, str], *, all_brokers: bool) -> None:
    """Raise KafkaError (INVALID_REQUEST) unless ``configs`` may be set while brokers run.

    ``all_brokers`` says whether the configs are for all brokers or for a single one.
    """
    known = {
        name: setting
        for name in configs
        if (setting := find_setting(ConfigResourceType.BROKER, name)) is not None
    }
    _refuse(
        "Cannot update these configs dynamically",
        (name for name, setting in known.items() if setting.mode == READ_ONLY),
    )
    per_broker = {name for name, setting in known.items() if setting.mode == PER_BROKER}
    per_broker |= {name for name in configs if name.startswith("listener.name.")}
    if all_brokers:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            per_broker,
        )
    _refuse("A listener's configs cannot be changed while this broker runs", per_broker)
    try:
        for name, setting in known.items():
            setting.parse(configs[name])
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _refuse(problem: str, names: Iterable[str]) -> None:
    """Raise KafkaError (INVALID_REQUEST) with ``problem``, unless ``names`` is empty."""
    found = sorted(names)
    if found:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{problem}: [{', '.join(found)}]")


def _parse(kind: ConfigResourceType, name: str, text: str) -> Value:
    setting = find_setting(kind, name)
    if setting is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown {SCOPES[kind]} config name: {name}")
    return setting.parse(text)


def _number(value: Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _check_topic(values: Mapping[str, Value]) -> None:
    shortest = _number(values.get("min.compaction.lag.ms"))
    longest = _number(values.get("max.compaction.lag.ms"))
    if shortest is not None and longest is not None and shortest > longest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({shortest}) is more than max.compaction.lag.ms ({longest})",
        )
    if values.get("remote.storage.enable"):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered storage is disabled in this broker: remote.storage.enable can't be true.",
        )


def _check_group_limits(name: str, value: Value, broker: Mapping[str, Value]) -> None:
    number = _number(value)
    if number is None:
        return
    prefix, _, rest = name.partition(".")
    least = f"group.{prefix}.min.{rest}"
    most = _GROUP_LIMITS.get(name, f"group.{prefix}.max.{rest}")
    low, high = _number(broker.get(least)), _number(broker.get(most))
    if low is not None and number < low:
        problem = f"{name} must be greater than or equal to {least} ({low})"
    elif high is not None and number > high:
        problem = f"{name} must be less than or equal to {most} ({high})"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_CONFIG, problem)


def _check_heartbeats(values: Mapping[str, Value], broker: Mapping[str, Value]) -> None:
    """Raise KafkaError (INVALID_CONFIG) unless a heartbeat fits into a member's session."""
    for prefix in ("consumer", "share", "streams"):
        names = [f"{prefix}.session.timeout.ms", f"{prefix}.heartbeat.interval.ms"]
        session, heartbeat = [
            _number(values.get(name, broker.get(f"group.{name}"))) for name in names
        ]
        if session is not None and heartbeat is not None and session <= heartbeat:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{names[0]} must be greater than {names[1]}"
            )
