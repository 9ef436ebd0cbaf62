"""Checks the configs of a resource: their names, their values, and values that must agree.

Rules:

- A topic, a group and a client-metrics subscription have the configs of their scope and no others.
- A broker accepts unknown names, because other programs may read them. Of the known names it
  accepts those that can change while it runs. In kwire, listeners' addresses and protocols can't.
- A group's timeouts lie between the broker's limits for them.

Source: LogConfig.validate, GroupConfig.validate, DynamicBrokerConfig.validate and
ClientMetricsConfigs.validate of Kafka.
"""

import re
from collections.abc import Iterable, Mapping

from kwire.config.client_metrics import parse_match
from kwire.config.cordoned import check_cordoned
from kwire.config.settings import (
    BROKER,
    CLIENT_METRICS,
    CLUSTER_WIDE,
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

MOST_CONFIGS = 1_000
"""How many configs one resource may have: far more than there are settings."""

_GROUP_LIMITS = {"streams.num.standby.replicas": "group.streams.max.standby.replicas"}
"""The broker's upper limits whose names don't follow from the name of the group's config."""


_LISTENERS = ("listener.security.protocol.map", "listeners")
"""The settings of which a listener consists."""

_OF_A_LISTENER = frozenset(
    {
        "ssl.key.password",
        *(f"ssl.keystore.{part}" for part in ("certificate.chain", "key", "location")),
        *(f"ssl.keystore.{part}" for part in ("password", "type")),
        *(f"ssl.truststore.{part}" for part in ("certificates", "location", "password", "type")),
    }
)
"""Configs that can only be changed with a listener's prefix (SslConfigs.RECONFIGURABLE_CONFIGS)."""

_LOGINS = ("connections.max.reauth.ms", "principal.builder.class", "sasl.")
"""The beginnings of the names of a listener's configs that kwire reads only when it starts."""

_OF_ALL_LOGINS = ("sasl.enabled.mechanisms", "sasl.jaas.config")
"""The beginnings of such names that apply to every listener, without a prefix."""

_MECHANISM_PREFIX = re.compile(r"^(plain|scram-sha-256|scram-sha-512|oauthbearer|gssapi)\.")

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.")


def find_setting(kind: ConfigResourceType, name: str) -> Setting | None:
    """The setting of this name for this kind of resource; None for an unknown name."""
    setting = settings(SCOPES[kind]).get(name)
    if setting is None and kind is ConfigResourceType.BROKER:
        return settings(DYNAMIC_BROKER).get(name)
    return setting


def check_number(count: int) -> None:
    """Raise KafkaError (INVALID_CONFIG) for more configs than a resource may have."""
    if count > MOST_CONFIGS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{count} configs for one resource; at most {MOST_CONFIGS} are allowed.",
        )


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
    elif kind is ConfigResourceType.CLIENT_METRICS:
        _check_match(values.get("match"))


def check_broker_configs(
    configs: Mapping[str, str], broker: Mapping[str, Value], *, all_brokers: bool
) -> None:
    """Raise KafkaError (INVALID_REQUEST) unless these configs may be set while brokers run.

    ``broker`` are the broker's settings in force. ``all_brokers`` says that the configs are for all
    brokers.
    """
    known = {
        name: setting
        for name in configs
        if (setting := find_setting(ConfigResourceType.BROKER, base_name(name))) is not None
    }
    own = {name: setting for name, setting in known.items() if name == setting.name}
    _refuse(
        "Cannot update these configs dynamically",
        (name for name, setting in own.items() if setting.mode == READ_ONLY),
    )
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        (name for name in own if name in _OF_A_LISTENER),
    )
    values = _parse_broker_configs(configs, known)
    if all_brokers:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in configs if _is_per_broker(name, known.get(name))),
        )
    _refuse(
        "The listeners cannot be changed while this broker runs",
        (name for name in _LISTENERS if name in values and values[name] != broker[name]),
    )
    _refuse(
        "Configs cannot be updated dynamically for the logins of an existing listener: set them in "
        "server.properties and restart the broker",
        (name for name in configs if _is_of_logins(name, broker)),
    )
    if isinstance(cordoned := values.get("cordoned.log.dirs"), list):
        directories = broker["log.dirs"]
        assert isinstance(directories, list)
        try:
            check_cordoned(cordoned, directories)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def base_name(name: str) -> str:
    """The name of a config without the prefix of a listener."""
    return _LISTENER_PREFIX.sub("", name)


def _is_per_broker(name: str, setting: Setting | None) -> bool:
    """Whether a config can be set only for one broker and not for all brokers, as in Kafka."""
    if name.startswith("listener.name."):
        return setting is None or setting.mode != CLUSTER_WIDE
    return setting is not None and setting.mode == PER_BROKER


def _is_of_logins(name: str, broker: Mapping[str, Value]) -> bool:
    """Whether a config says how clients log in to one of the broker's own listeners."""
    base = _MECHANISM_PREFIX.sub("", base_name(name))
    if base == name:
        return name in _OF_ALL_LOGINS and any(
            protocol.startswith("SASL_") for protocol in _protocols(broker).values()
        )
    listener = name.split(".")[2].upper()
    return base.startswith(_LOGINS) and _protocols(broker).get(listener, "PLAINTEXT") != "PLAINTEXT"


def _protocols(broker: Mapping[str, Value]) -> dict[str, str]:
    """The protocol of each of a broker's listeners."""
    texts = broker["listeners"]
    assert isinstance(texts, list)
    pairs = str(broker["listener.security.protocol.map"]).upper().split(",")
    mapped = {name.strip(): protocol.strip() for name, _, protocol in map(_split_pair, pairs)}
    names = [text.partition(":")[0].strip().upper() for text in texts]
    return {name: mapped.get(name, name) for name in names}


def _split_pair(pair: str) -> tuple[str, str, str]:
    return pair.partition(":")


def _parse_broker_configs(
    configs: Mapping[str, str], known: Mapping[str, Setting]
) -> dict[str, Value]:
    """The values of the known configs; KafkaError (INVALID_REQUEST) for an invalid value."""
    try:
        values = {name: setting.parse(configs[name]) for name, setting in known.items()}
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    for name, setting in known.items():
        if setting.type == "CLASS" and configs[name] not in ("", setting.default):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {configs[name]} for configuration {setting.name}: "
                f"Class {configs[name]} could not be found.",
            )
    return values


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


def _check_match(value: Value) -> None:
    """Raise KafkaError (INVALID_CONFIG) for a malformed pattern of a subscription."""
    try:
        parse_match(value if isinstance(value, list) else [])
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


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
