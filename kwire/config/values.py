"""Reads the text of a setting's value, checks the value, and prints it, all as Kafka does.

Rules:

- Blanks around a value, and around the items of a list, are ignored.
- A BOOLEAN is ``true`` or ``false`` in upper or lower case. Numbers follow Java's syntax: ``+5``
  and ``0.5d`` are numbers, ``1_000`` and ``0x10`` are not.
- The table writes allowed values as Kafka's ConfigDef prints them: ``[0,...]`` and
  ``[1,...,9] or -1`` for numbers, ``non-empty string``, and ``[a, b]`` for one of these words, or
  any of them where the type is LIST. ``FORMS`` has the few settings with another syntax.

Source: ConfigDef.parseType, ConfigDef.convertToString and the validators of Kafka.
"""

import re
from typing import TypeAlias

Value: TypeAlias = int | float | bool | str | list[str] | None

_INTEGER_LIMITS = {"SHORT": 1 << 15, "INT": 1 << 31, "LONG": 1 << 63}
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(
    r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?", re.ASCII
)

_THROTTLED_REPLICAS = (
    r"\*|([0-9]{1,10}:[0-9]{1,10}(,[0-9]{1,10}:[0-9]{1,10})*)?",
    "must be * or a list of partition:broker",
)
_DURATION = r"P(?=.)(-?[0-9]+D)?(T(?=.)(-?[0-9]+H)?(-?[0-9]+M)?(-?[0-9]+(\.[0-9]{1,9})?S)?)?"

FORMS: dict[str, tuple[str, str]] = {
    "errors.deadletterqueue.topic.name": ("_?([^_].*)?", "must not begin with __"),
    "follower.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "leader.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "max.connections.per.ip.overrides": (
        r"([^,:]+:[0-9]+(,[^,:]+:[0-9]+)*)?",
        "must be a list of host:count",
    ),
    "share.auto.offset.reset": (
        f"latest|earliest|by_duration:{_DURATION}",
        "must be latest, earliest or by_duration:PnDTnHnMn.nS",
    ),
}
"""Settings whose text has its own syntax: a pattern, and the words of the error about it."""


class ConfigError(ValueError):
    """A setting has a value that isn't allowed.

    The text names the setting, its value and the allowed values.
    """

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {allowed}")
        self.name = name
        self.value = value
        self.allowed = allowed


def parse_value(name: str, kind: str, text: str) -> Value:
    """The value of Kafka's type ``kind`` in ``text``; a ConfigError names the setting ``name``."""
    stripped = text.strip()
    if kind == "BOOLEAN":
        if stripped.lower() not in ("true", "false"):
            raise ConfigError(name, text, "must be true or false")
        return stripped.lower() == "true"
    if kind == "LIST":
        return [item.strip() for item in stripped.split(",")] if stripped else []
    if kind in _INTEGER_LIMITS:
        return _parse_integer(name, kind, stripped)
    if kind == "DOUBLE":
        match = _DOUBLE.fullmatch(stripped)
        if match is None:
            raise ConfigError(name, text, "must be a number of type double")
        return float(match[1])
    return stripped


def _parse_integer(name: str, kind: str, text: str) -> int:
    limit = _INTEGER_LIMITS[kind]
    value = int(text) if _INTEGER.fullmatch(text) and len(text) <= 20 else limit
    if not -limit <= value < limit:
        raise ConfigError(name, text, f"must be a whole number of type {kind.lower()}")
    return value


def check_value(name: str, allowed: str, value: Value, text: str) -> None:
    """Raise ConfigError unless ``value``, which was read from ``text``, is allowed."""
    form = FORMS.get(name)
    if form is not None:
        joined = ",".join(value) if isinstance(value, list) else text.strip()
        if not re.fullmatch(form[0], joined):
            raise ConfigError(name, text, form[1])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if allowed:
            _check_range(name, allowed, value, text)
    elif allowed == "non-empty string" and not value:
        raise ConfigError(name, text, "must not be empty")
    elif "[" in allowed and isinstance(value, str | list):
        _check_choice(name, allowed, value, text)
    elif isinstance(value, list) and "" in value:
        raise ConfigError(name, text, "must not have empty items")


def _check_range(name: str, allowed: str, value: int | float, text: str) -> None:
    interval, _, exception = allowed.partition(" or ")
    if exception and value == float(exception):
        return
    bounds = interval.strip("[]").split(",")
    if value < float(bounds[0]):
        raise ConfigError(name, text, f"must be at least {bounds[0]}")
    if bounds[-1] != "..." and value > float(bounds[-1]):
        raise ConfigError(name, text, f"must be at most {bounds[-1]}")


def _check_choice(name: str, allowed: str, value: str | list[str], text: str) -> None:
    choices = [choice.strip() for choice in allowed[allowed.index("[") + 1 : -1].split(",")]
    given = [value] if isinstance(value, str) else value
    if allowed.startswith("(case insensitive)"):
        given = [item.upper() for item in given]
    if any(item not in choices for item in given):
        kind = "any of" if isinstance(value, list) else "one of"
        raise ConfigError(name, text, f"must be {kind} {', '.join(choices)}")


def print_value(value: Value) -> str | None:
    """``value`` as Kafka prints it in DescribeConfigs."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return _print_double(value)
    return str(value)


def _print_double(value: float) -> str:
    """``value`` as Java's Double.toString prints it: 0.5, 1.0E-4, 1.7976931348623157E308."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = _decimal(value)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal(value: float) -> tuple[str, str, int]:
    """The sign, the shortest digits that identify ``value``, and the first digit's power of ten."""
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    return sign, digits.rstrip("0"), int(exponent or 0) + len(whole) - 1 - leading_zeros
