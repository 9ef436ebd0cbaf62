"""The options of ``[decode]`` by format, checked before Spark starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kwire.schemas.registry import CLIENT_OPTIONS, RegistrySettings
from kwire.spark.decode.connect_values import DECIMALS, UNITS_NS
from kwire.spark.decode.debezium import PLACEHOLDER, bytes_of_placeholder
from kwire.spark.settings import Decode, WrongSetting

KEYS = ("bytes", "text")

_CLIENT_OPTIONS: dict[str, type] = {
    "registry_user": str,
    "registry_password": str,
    "registry_timeout_s": float,
    "registry_client": dict,
}
_REGISTRY_OPTIONS = {**_CLIENT_OPTIONS, "subject": str}
_TIMES: dict[str, type] = {"timestamp_format": str, "date_format": str}

FORMATS: dict[str, dict[str, type]] = {
    "json": {
        "schema": str,
        "schema_file": str,
        "inferred_schema": str,
        "sample": int,
        "refresh_s": float,
        **_TIMES,
        **_REGISTRY_OPTIONS,
    },
    "avro": {"schema": str, "schema_file": str, "refresh_s": float, **_REGISTRY_OPTIONS},
    "protobuf": {"schema_file": str, "message": str, "refresh_s": float, **_REGISTRY_OPTIONS},
    "csv": {
        "schema": str,
        "delimiter": str,
        "quote": str,
        "escape": str,
        "null_value": str,
        **_TIMES,
    },
    "debezium": {
        "schema": str,
        "schema_file": str,
        "decimals": str,
        "timestamps": str,
        "placeholder": str,
        **_CLIENT_OPTIONS,
    },
    "text": {"column": str},
    "bytes": {"column": str},
}
"""The options of each format, and the type of each value."""

WITH_REGISTRY = ("json", "avro", "protobuf", "debezium")
_DEFAULTS: dict[str, Any] = {
    "sample": 1000,
    "registry_timeout_s": 5.0,
    "registry_client": (),
    "subject": "{topic}-value",
    "column": "value",
    "delimiter": ",",
    "quote": '"',
    "escape": "\\",
    "placeholder": PLACEHOLDER,
}
_ONE_OF = {"decimals": DECIMALS, "timestamps": tuple(UNITS_NS)}
_REFRESH_S = 10.0
_MAX_SAMPLE = 100_000


@dataclass(frozen=True, slots=True)
class Options:
    """A format's options; a missing option has its default, or is empty."""

    format: str
    key: str
    given: tuple[tuple[str, Any], ...]
    registry: RegistrySettings | None

    def __getitem__(self, name: str) -> Any:
        return dict(self.given).get(name, _DEFAULTS.get(name, ""))

    @property
    def refresh_s(self) -> float:
        """How old what is known of schemas may be; a registry is asked before each batch."""
        return float(dict(self.given).get("refresh_s", 0.0 if self.registry else _REFRESH_S))

    def has(self, name: str) -> bool:
        """Whether the option is given."""
        return name in dict(self.given)

    def subject(self, topic: str) -> str:
        """The registry's subject for a topic's values."""
        return str(self["subject"]).replace("{topic}", topic)


def options_of(settings: Decode) -> Options:
    """The options, checked one by one and against each other; WrongSetting."""
    known = FORMATS.get(settings.format)
    if known is None:
        raise WrongSetting("decode.format", settings.format, f"it is one of {', '.join(FORMATS)}")
    if settings.key not in KEYS:
        raise WrongSetting("decode.key", settings.key, f"it is one of {', '.join(KEYS)}")
    given = {}
    for name, value in settings.options.items():
        wanted = known.get(name)
        if wanted is None:
            allowed = ", ".join(sorted(known))
            raise WrongSetting(
                f"decode.{name}", value, f"format {settings.format} has the options {allowed}"
            )
        given[name] = _typed(name, value, wanted)
    options = Options(settings.format, settings.key, tuple(sorted(given.items())), None)
    _check_together(settings, options)
    return Options(options.format, options.key, options.given, _registry(settings, options))


def _typed(name: str, value: Any, wanted: Any) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if name == "registry_client":
        return _client(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        nouns = {str: "a text", int: "a whole number", float: "a number"}
        raise WrongSetting(f"decode.{name}", value, f"it is {nouns[wanted]}")
    if wanted is str and not value:
        raise WrongSetting(f"decode.{name}", value, "it isn't empty")
    if wanted is not str and value <= 0:
        raise WrongSetting(f"decode.{name}", value, "it is more than 0")
    if name == "sample" and value > _MAX_SAMPLE:
        raise WrongSetting(f"decode.{name}", value, f"it is at most {_MAX_SAMPLE}")
    if name in _ONE_OF and value not in _ONE_OF[name]:
        raise WrongSetting(f"decode.{name}", value, f"it is one of {', '.join(_ONE_OF[name])}")
    if name in ("quote", "escape") and len(value) != 1:
        raise WrongSetting(f"decode.{name}", value, "it is one character")
    if name == "placeholder":
        _check_placeholder(value)
    return value


def _check_placeholder(value: str) -> None:
    try:
        bytes_of_placeholder(value)
    except ValueError as error:
        allowed = "it is a text, or hexadecimal digits after hex:"
        raise WrongSetting("decode.placeholder", value, allowed) from error


def _client(value: Any) -> tuple[tuple[str, str], ...]:
    """Options of the registry's client, in order; WrongSetting."""
    if not isinstance(value, dict):
        raise WrongSetting("decode.registry_client", value, "it is a table of the client's options")
    for name, one in value.items():
        if name not in CLIENT_OPTIONS and not name.startswith("config.providers"):
            known = ", ".join(CLIENT_OPTIONS)
            raise WrongSetting(f"decode.registry_client.{name}", one, f"the options are {known}")
        if not isinstance(one, str) or not one:
            raise WrongSetting(f"decode.registry_client.{name}", one, "it is a text, not empty")
    return tuple(sorted(value.items()))


def _check_together(settings: Decode, options: Options) -> None:
    """Raise WrongSetting for options that exclude each other, or that need another one."""
    ways = [name for name in ("schema", "schema_file", "inferred_schema") if options.has(name)]
    if len(ways) > 1:
        raise WrongSetting(f"decode.{ways[1]}", options[ways[1]], f"decode.{ways[0]} is given too")
    if settings.registry:
        if settings.format not in WITH_REGISTRY:
            allowed = f"a registry is for the formats {', '.join(WITH_REGISTRY)}"
            raise WrongSetting("decode.registry", settings.registry, allowed)
        if "inferred_schema" in ways:
            allowed = "with decode.registry the schema is the registry's"
            raise WrongSetting("decode.inferred_schema", options["inferred_schema"], allowed)
        if settings.format != "debezium":  # whose events' schemas say too little of the table
            return
    for name in _REGISTRY_OPTIONS:
        if options.has(name) and not settings.registry:
            raise WrongSetting(f"decode.{name}", options[name], "it needs decode.registry")
    needed = {
        "json": "schema, schema_file, inferred_schema (a path to keep it in) or registry",
        "avro": "schema, schema_file or registry",
        "protobuf": "schema_file or registry",
        "csv": "schema",
        "debezium": "schema (the table's columns) or schema_file",
    }.get(settings.format)
    if needed and not ways:
        raise WrongSetting("decode.format", settings.format, f"it needs decode.{needed}")


def _registry(settings: Decode, options: Options) -> RegistrySettings | None:
    if not settings.registry:
        return None
    try:
        parts = urlsplit(settings.registry)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise WrongSetting("decode.registry", settings.registry, "it is http://HOST:PORT")
    return RegistrySettings(
        url=settings.registry,
        user=options["registry_user"],
        password=options["registry_password"],
        timeout_s=options["registry_timeout_s"],
        client=options["registry_client"],
    )


def file_text(name: str, path: str) -> str:
    """The text of a file that an option names; WrongSetting."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WrongSetting(f"decode.{name}", path, f"it can't be read: {error}") from error
