"""Checks a pipeline's settings: the keys, their types, and their values.

A table is checked against the fields of its dataclass, so a new field needs a line only if its
values are restricted. Mistakes are collected, not raised, so that a user can correct a file in one
go.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from math import isfinite
from typing import Any, TypeVar

from kwire.cli.profiles import ProfileError, parse_addresses
from kwire.config.listener_settings import PROTOCOLS
from kwire.spark import settings as known
from kwire.spark.masking import masked
from kwire.spark.parquet_times import other_times
from kwire.spark.tombstones import ROW, WAYS

T = TypeVar("T")

INTERVAL = re.compile(
    r"(\d+(\.\d+)?\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|days?))(\s+\d+\s*\w+)*"
)
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
_TABLE, _TEXT = (Mapping, "a table"), (str, "a text")
_SINK_OPTIONS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("client", "catalog", "properties", "storage"), _TABLE),
    **dict.fromkeys(("table", "bootstrap_servers"), _TEXT),
}
"""The types of options that sinks look into before they check them."""
METADATA = ("topic", "partition", "offset", "timestamp", "key", "headers", "tombstone")
_BEGINNING = -2
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OURS = {"bootstrap.servers", "isolation.level", "group.id", "auto.offset.reset"}
"""Client options that have their own key in the file, or that Spark sets itself."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A key with a value that the pipeline can't use, and what is allowed."""

    path: tuple[str, ...]
    value: object
    allowed: str

    def __str__(self) -> str:
        key = ".".join(self.path)
        value = "" if self.value is MISSING else f" = {shown(masked(key, self.value))}"
        return f"{key}{value}: {self.allowed}"


@dataclass(slots=True)
class Checked:
    """The mistakes that were found."""

    mistakes: list[Mistake] = field(default_factory=list)

    def mistake(self, path: tuple[str, ...], value: object, allowed: str) -> None:
        """Note a mistake."""
        self.mistakes.append(Mistake(path, value, allowed))


def pipeline(given: Mapping[str, Any], checked: Checked, name: str) -> known.PipelineSettings:
    """The settings in a mapping of a file's form; ``checked`` gets the mistakes."""
    top = {key: value for key, value in given.items() if key != "transform"}
    top.setdefault("name", name)
    tables = {
        "source": _source(given, checked),
        "sink": _sink(given, checked),
        "decode": _table(given, "decode", known.Decode, checked),
        "dead_letters": _dead_letters(given, checked),
        "transforms": _transforms(given, checked),
    }
    for table in ("source", "sink", "decode", "dead_letters"):
        top.pop(table, None)
    if "spark" in top:
        top["spark"] = _texts(("spark",), top["spark"], checked)
        for key, allowed in other_times(top["spark"]).items():
            checked.mistake(("spark", key), top["spark"][key], allowed)
    made = _values((), top, known.PipelineSettings, checked, set(tables))
    if "trigger" in made and made["trigger"] != "once" and not INTERVAL.fullmatch(made["trigger"]):
        allowed = "an interval such as '10 seconds', or 'once'"
        checked.mistake(("trigger",), made["trigger"], allowed)
    if made.get("metrics") and not re.fullmatch(r".*:\d{1,5}", made["metrics"]):
        checked.mistake(("metrics",), made["metrics"], "HOST:PORT")
    if made.get("name") and not re.fullmatch(r"[\w.-]+", made["name"]):
        checked.mistake(("name",), made["name"], "letters, digits, '.', '_' and '-'")
    made |= {key: value for key, value in tables.items() if value is not None}
    return _made(known.PipelineSettings, made, checked)


def _source(given: Mapping[str, Any], checked: Checked) -> known.Source:
    source = dict(given.get("source") or {}) if isinstance(given.get("source"), Mapping) else {}
    if isinstance(source.get("starting"), Mapping):
        source["starting"] = json.dumps(source["starting"])
    if isinstance(source.get("topics"), str):
        source["topics"] = [source["topics"]]
    if "client" in source:
        source["client"] = _texts(("source", "client"), source["client"], checked)
    found = _table({**given, "source": source}, "source", known.Source, checked)
    _check_topics(found, checked)
    _one_of(("source", "isolation_level"), found.isolation_level, ISOLATION_LEVELS, checked)
    _one_of(("source", "on_data_loss"), found.on_data_loss, ("stop", "record"), checked)
    if not is_start(found.starting):
        allowed = (
            "earliest, latest, a time such as 2026-01-31T12:00:00+00:00, or offsets of all "
            'partitions as {"topic": {"0": 5}}'
        )
        checked.mistake(("source", "starting"), found.starting, allowed)
    for name in ("max_offsets_per_trigger", "max_bytes_per_trigger"):
        if getattr(found, name) < 0:
            checked.mistake(("source", name), getattr(found, name), "0 (no limit) or more")
    _check_client(found, checked)
    return found


def _check_topics(found: known.Source, checked: Checked) -> None:
    if bool(found.topics) == bool(found.pattern):
        checked.mistake(("source", "topics"), list(found.topics), "either topics or a pattern")
    try:
        parse_addresses(found.bootstrap_servers or "missing:1")
    except ProfileError:
        checked.mistake(
            ("source", "bootstrap_servers"),
            found.bootstrap_servers,
            "HOST:PORT, or several with commas",
        )
    for topic in found.topics:
        _check_topic(("source", "topics"), topic, checked)
    try:
        re.compile(found.pattern)
    except re.error as error:
        allowed = f"a regular expression that Python has too ({error})"
        checked.mistake(("source", "pattern"), found.pattern, allowed)


def _check_topic(path: tuple[str, ...], topic: object, checked: Checked) -> None:
    if topic in (".", "..") or not _TOPIC.fullmatch(str(topic)):
        allowed = "a topic's name: up to 249 letters without accents, digits, '.', '_' and '-'"
        checked.mistake(path, topic, allowed)


def _check_client(source: known.Source, checked: Checked) -> None:
    for name, value in source.client.items():
        path = ("source", "client", name)
        if name.removeprefix("kafka.") != name:
            checked.mistake(path, value, f"Kafka's own name, {name.removeprefix('kafka.')}")
        elif name in _OURS:
            checked.mistake(path, value, "not here: the pipeline sets it by a key of its own")
        elif name == "security.protocol" and value.strip().upper() not in PROTOCOLS:
            checked.mistake(path, value, near(value, PROTOCOLS))


def is_start(text: str) -> bool:
    """Whether a text says where to start: earliest, latest, a time, or offsets as JSON."""
    if text in ("earliest", "latest"):
        return True
    try:
        if text.lstrip().startswith("{"):
            found = json.loads(text)
            return all(isinstance(rows, dict) and _are_offsets(rows) for rows in found.values())
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _are_offsets(rows: Mapping[str, Any]) -> bool:
    """Whether these are offsets by partition, with -2 for a beginning and -1 for an end."""
    are_numbers = all(one.isascii() and one.isdigit() for one in rows)
    return are_numbers and all(_is_whole(one) and one >= _BEGINNING for one in rows.values())


def _sink(given: Mapping[str, Any], checked: Checked) -> known.SinkSettings | None:
    if not isinstance(given.get("sink"), Mapping):
        checked.mistake(("sink",), given.get("sink", MISSING), "a table [sink] with a kind")
        return None
    found = _table(given, "sink", known.SinkSettings, checked)
    for name in found.metadata:
        _one_of(("sink", "metadata"), name, METADATA, checked)
    if found.tombstones:
        _one_of(("sink", "tombstones"), found.tombstones, WAYS, checked)
        if found.kind == "upsert" and found.tombstones != ROW:
            allowed = "not with the kind upsert: a tombstone deletes, as deletes says"
            checked.mistake(("sink", "tombstones"), found.tombstones, allowed)
    if found.kind == "topic":
        for name in ("path", "metadata"):
            if given["sink"].get(name):
                checked.mistake(("sink", name), given["sink"][name], "not with the kind topic")
        if found.options.get("topic"):
            _check_topic(("sink", "topic"), found.options["topic"], checked)
    _check_sink_options(found.options, checked)
    return found


def _check_sink_options(options: Mapping[str, Any], checked: Checked) -> None:
    for name, value in options.items():
        if name in _SINK_OPTIONS and not isinstance(value, _SINK_OPTIONS[name][0]):
            checked.mistake(("sink", name), value, _SINK_OPTIONS[name][1])
        if name == "max_rows" and (not _is_whole(value) or value < 1):
            checked.mistake(("sink", name), value, "a whole number, 1 or more")
        if isinstance(value, list) and not all(isinstance(one, str) and one for one in value):
            checked.mistake(("sink", name), value, "a list of texts")


def _dead_letters(given: Mapping[str, Any], checked: Checked) -> known.DeadLetters | None:
    if "dead_letters" not in given:
        return None
    found = _table(given, "dead_letters", known.DeadLetters, checked)
    if not found.topic and not found.path:
        checked.mistake(("dead_letters",), MISSING, "a topic or a path")
    if found.topic:
        _check_topic(("dead_letters", "topic"), found.topic, checked)
        if "kind" in given["dead_letters"]:
            checked.mistake(
                ("dead_letters", "kind"), found.kind, "only with a path: a topic has none"
            )
    if list(found.retry_delays_s) != sorted(set(found.retry_delays_s)):
        path = ("dead_letters", "retry_delays_s")
        checked.mistake(path, list(found.retry_delays_s), "delays in rising order")
    return found


def _transforms(given: Mapping[str, Any], checked: Checked) -> tuple[known.Transform, ...]:
    rows = given.get("transform", [])
    if not isinstance(rows, list):
        checked.mistake(("transform",), rows, "tables [[transform]], one for each step")
        return ()
    steps = []
    for number, row in enumerate(rows):
        path = ("transform", str(number))
        if not isinstance(row, Mapping):
            checked.mistake(path, row, "a table [[transform]]")
            continue
        step = _made(known.Transform, _values(path, row, known.Transform, checked), checked)
        if bool(step.sql) == bool(step.function):
            checked.mistake(path, row, "either sql or function")
        elif step.function and not re.fullmatch(r"[\w.]+:\w+", step.function):
            checked.mistake((*path, "function"), step.function, "module:function")
        steps.append(step)
    return tuple(steps)


def _table(given: Mapping[str, Any], name: str, kind: type[T], checked: Checked) -> T:
    row = given.get(name, {})
    if not isinstance(row, Mapping):
        checked.mistake((name,), row, f"a table [{name}]")
        row = {}
    return _made(kind, _values((name,), row, kind, checked), checked, (name,))


def _values(
    path: tuple[str, ...],
    row: Mapping[str, Any],
    kind: type[Any],
    checked: Checked,
    elsewhere: Iterable[str] = (),
) -> dict[str, Any]:
    """The values of a table, each of its field's type; the options of a kind are gathered."""
    own = {one.name: one for one in fields(kind) if one.name != "options"}
    for name in elsewhere:
        own.pop(name, None)
    takes_options = any(one.name == "options" for one in fields(kind))
    made: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in row.items():
        if name in own:
            default = own[name].default
            wanted = _WANTED[str(own[name].type)]
            if wanted.accepts(value):
                made[name] = tuple(value) if isinstance(value, list) else value
            else:
                checked.mistake((*path, name), value, wanted.text)
                made[name] = "" if default is MISSING else default
        elif takes_options:
            options[name] = value
        else:
            everything = [*own, *elsewhere] if not path else own
            checked.mistake((*path, name), value, near(name, everything))
    return made | ({"options": options} if options else {})


def _made(kind: type[T], values: dict[str, Any], checked: Checked, path: tuple[str, ...] = ()) -> T:
    """The dataclass; a missing value is a mistake, and becomes an empty text."""
    for one in fields(kind):  # type: ignore[arg-type]
        needed = one.default is MISSING and one.default_factory is MISSING
        if needed and one.name not in values:
            if one.name != "sink":  # noted when the table was looked for
                checked.mistake((*path, one.name), MISSING, "is missing; it has no default")
            values[one.name] = ""
    return kind(**values)


@dataclass(frozen=True, slots=True)
class _Wanted:
    accepts: Callable[[Any], bool]
    text: str


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_WANTED = {
    "<class 'str'>": _Wanted(lambda value: isinstance(value, str), "a text"),
    "<class 'int'>": _Wanted(_is_whole, "a whole number"),
    "tuple[str, ...]": _Wanted(
        lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
        "a list of texts",
    ),
    "tuple[float, ...]": _Wanted(
        lambda value: isinstance(value, list) and all(map(_is_number, value)), "a list of numbers"
    ),
    "dict[str, str]": _Wanted(lambda value: isinstance(value, dict), "a table"),
}
"""The texts about the values that a field of each type accepts."""


def _texts(path: tuple[str, ...], rows: object, checked: Checked) -> dict[str, str]:
    """A table of options for another program: numbers and booleans become texts."""
    if not isinstance(rows, Mapping):
        checked.mistake(path, rows, f"a table [{'.'.join(path)}]")
        return {}
    found: dict[str, str] = {}
    for name, value in _flat(rows):
        if isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        else:
            checked.mistake((*path, name), value, "a text or a number")
    return found


def _flat(rows: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """``a.b = 1`` without quotes is a table in TOML, but users mean an option's name."""
    for name, value in rows.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _one_of(path: tuple[str, ...], value: str, allowed: tuple[str, ...], checked: Checked) -> None:
    if value not in allowed:
        checked.mistake(path, value, near(value, allowed))


def near(name: str, names: Iterable[str]) -> str:
    """The allowed names in place of an unknown name, with the likeliest one."""
    ordered = list(names)
    close = difflib.get_close_matches(str(name), ordered, 1)
    guess = f"; did you mean {close[0]}?" if close else ""
    return f"one of {', '.join(ordered)}{guess}"


def shown(value: object) -> str:
    """A value as TOML writes it, in one line."""
    return json.dumps(value, ensure_ascii=False, default=str)
