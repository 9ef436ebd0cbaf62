"""What settings Kafka 4.3 has, and how the text of a value becomes a checked value.

The table is ``settings.tsv``: scope (broker, topic, group), name, type, default, allowed values,
importance, and for broker settings where they may change (read-only, per-broker, cluster-wide).
Source: ConfigDef, KafkaConfig, LogConfig, GroupConfig and DynamicBrokerConfig of Kafka.

Allowed values are written as Kafka prints them: ``[0,...]``, ``[1,...,9] or -1``, ``[a, b]``
(one of, or for a LIST any of), ``non-empty string``.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = int | float | bool | str | list[str] | None

BROKER = "broker"
TOPIC = "topic"
GROUP = "group"

READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"

_INTEGER_LIMITS = {"SHORT": 1 << 15, "INT": 1 << 31, "LONG": 1 << 63}


class ConfigError(ValueError):
    """A setting that can't be used; its text names the setting, the value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed


class Setting:
    """One setting: its name, type, default (as text, None for null) and allowed values."""

    __slots__ = ("default", "importance", "mode", "name", "required", "scope", "type", "valid")

    def __init__(self, scope: str, row: list[str]) -> None:
        self.scope = scope
        self.name, self.type, default, self.valid, self.importance, self.mode = row
        self.required = default == "(required)"
        self.default = None if default == "null" or self.required else default

    @property
    def is_sensitive(self) -> bool:
        """Whether its value is a secret that is never shown."""
        return self.type == "PASSWORD"

    def parse(self, text: str | None) -> Value:
        """The value that ``text`` stands for, checked; ConfigError says what is wrong with it."""
        if text is None:
            return None
        value = self._parsed(text)
        self._check(value, text)
        return value

    def _parsed(self, text: str) -> Value:
        stripped = text.strip()
        if self.type == "BOOLEAN":
            if stripped.lower() not in ("true", "false"):
                raise ConfigError(self.name, text, "must be true or false")
            return stripped.lower() == "true"
        if self.type == "LIST":
            return [item.strip() for item in stripped.split(",")] if stripped else []
        if self.type in _INTEGER_LIMITS:
            return self._integer(stripped)
        if self.type == "DOUBLE":
            try:
                return float(stripped)
            except ValueError:
                raise ConfigError(self.name, text, "must be a number of type double") from None
        return stripped

    def _integer(self, text: str) -> int:
        limit = _INTEGER_LIMITS[self.type]
        try:
            value = int(text)
        except ValueError:
            value = limit
        if not -limit <= value < limit or "_" in text:
            raise ConfigError(
                self.name, text, f"must be a whole number of type {self.type.lower()}"
            )
        return value

    def _check(self, value: Value, text: str) -> None:
        valid = self.valid
        if (
            not valid or ":" in valid
        ):  # formats such as by_duration:… are checked where they are used
            return
        if isinstance(value, int | float) and not isinstance(value, bool):
            self._check_range(value, text)
        elif valid == "non-empty string" and not value:
            raise ConfigError(self.name, text, "must not be empty")
        elif "[" in valid and isinstance(value, str | list):
            self._check_choice(value, text)

    def _check_range(self, value: int | float, text: str) -> None:
        interval, _, exception = self.valid.partition(" or ")
        if exception and value == float(exception):
            return
        bounds = interval.strip("[]").split(",")
        low = float(bounds[0])
        high = float(bounds[-1]) if bounds[-1] != "..." else None
        if value < low:
            raise ConfigError(self.name, text, f"must be at least {bounds[0]}")
        if high is not None and value > high:
            raise ConfigError(self.name, text, f"must be at most {bounds[-1]}")

    def _check_choice(self, value: str | list[str], text: str) -> None:
        choices = [
            choice.strip() for choice in self.valid[self.valid.index("[") + 1 : -1].split(",")
        ]
        given = [value] if isinstance(value, str) else value
        if self.valid.startswith("(case insensitive)"):
            given = [item.upper() for item in given]
        if any(item not in choices for item in given):
            kind = "any of" if isinstance(value, list) else "one of"
            raise ConfigError(self.name, text, f"must be {kind} {', '.join(choices)}")

    def to_text(self, value: Value) -> str | None:
        """``value`` as Kafka prints it in DescribeConfigs."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list):
            return ",".join(value)
        return str(value)

    def __repr__(self) -> str:
        return f"Setting({self.scope} {self.name}: {self.type} = {self.default})"


@cache
def settings(scope: str) -> Mapping[str, Setting]:
    """Every setting of a scope (BROKER, TOPIC or GROUP) by its name."""
    table = Path(__file__).with_name("settings.tsv").read_text(encoding="utf-8")
    prefix = scope + "\t"
    return {
        row[1]: Setting(scope, row[1:])
        for line in table.splitlines()
        if line.startswith(prefix)
        for row in [line.split("\t")]
    }
