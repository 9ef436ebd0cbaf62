"""The table of all settings: those of Kafka 4.4, and kwire's own, which begin with ``kwire.``.

The table is ``settings.tsv``. Its columns are scope, name, type, default, allowed values,
importance, mode and ``internal``. The scope is broker, topic, group or client-metrics;
dynamic-broker is for configs that a broker has only as dynamic configs. The mode says where a
broker setting may change while brokers run: read-only, per-broker or cluster-wide.

Source: ConfigDef, KafkaConfig, LogConfig, GroupConfig, DynamicBrokerConfig, DynamicConfig,
ClientMetricsConfigs of Kafka.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from kwire.config.values import ConfigError as ConfigError
from kwire.config.values import Value as Value
from kwire.config.values import check_value, parse_value, print_value

BROKER = "broker"
DYNAMIC_BROKER = "dynamic-broker"
TOPIC = "topic"
GROUP = "group"
CLIENT_METRICS = "client-metrics"

READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"


class Setting:
    """One setting: its name, type, default (as text, None for null) and allowed values.

    ``mode`` says where a broker setting may change. Kafka hides a setting with ``is_internal``.
    """

    __slots__ = (
        "default",
        "importance",
        "is_internal",
        "mode",
        "name",
        "required",
        "scope",
        "type",
        "valid",
    )

    def __init__(self, scope: str, row: list[str]) -> None:
        self.scope = scope
        self.name, self.type, default, self.valid, self.importance, self.mode, internal = row
        self.is_internal = internal == "internal"
        self.required = default == "(required)"
        self.default = None if default == "null" or self.required else default

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a secret, which kwire never shows."""
        return self.type == "PASSWORD"

    def parse(self, text: str | None) -> Value:
        """The value that ``text`` stands for, checked.

        A ConfigError says what is wrong with the value, and what the setting does.
        """
        if text is None:
            return None
        try:
            value = parse_value(self.name, self.type, text)
            if text is not self.default:
                check_value(self.name, self.valid, value, text)
        except ConfigError as error:
            from kwire.config.documentation import documentation

            about = documentation(self.scope)[self.name]
            raise ConfigError(self.name, text, f"{error.allowed} ({about})") from None
        return value

    def to_text(self, value: Value) -> str | None:
        """``value`` as Kafka prints it in DescribeConfigs."""
        return print_value(value)

    def __repr__(self) -> str:
        return f"Setting({self.scope} {self.name}: {self.type} = {self.default})"


@cache
def settings(scope: str) -> Mapping[str, Setting]:
    """Every setting of a scope by its name."""
    table = Path(__file__).with_name("settings.tsv").read_text(encoding="utf-8")
    prefix = scope + "\t"
    return {
        row[1]: Setting(scope, row[1:])
        for line in table.splitlines()
        if line.startswith(prefix)
        for row in [line.split("\t")]
    }
