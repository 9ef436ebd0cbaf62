"""The options of ``spark.read.format("kwire")``: their names, their values, and what is allowed.

Spark gives options as text, and their names in any case. A wrong name or value raises WrongSetting,
whose one line names the option, the value and what is allowed.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from kwire.record.compression import DEFAULT_MAX_BYTES
from kwire.spark.rows import STAMP
from kwire.spark.settings import WrongSetting

COLUMNS: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
"""The connector's columns, in its order, with their types in Spark SQL."""

ALL_COLUMNS = {**COLUMNS, STAMP: "bigint"}
"""The columns that a read can ask for."""

EARLIEST, LATEST = -2, -1
"""The connector's numbers for these two in the JSON of offsets."""

READ_COMMITTED = "read_committed"

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_GIBIBYTE = 1024 * 1024 * 1024

PerPartition: TypeAlias = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Offsets:
    """Where to start or end: one place for all partitions, or a place for each named partition."""

    everywhere: int
    each: PerPartition = field(default_factory=dict)

    def of(self, topic: str, partition: int) -> int:
        """The offset for a partition, EARLIEST or LATEST."""
        return self.each.get(topic, {}).get(partition, self.everywhere)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read; times are milliseconds since the epoch, None is no bound."""

    path: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: frozenset[int] | None = None
    starting: Offsets = Offsets(EARLIEST)
    ending: Offsets = Offsets(LATEST)
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    columns: tuple[str, ...] = tuple(COLUMNS)[:-1]
    is_committed: bool = False
    ignores_high_watermark: bool = False
    fails_on_data_loss: bool = True
    split_bytes: int = 32 * 1024 * 1024
    max_batch_bytes: int = DEFAULT_MAX_BYTES
    max_records_per_trigger: int = 0
    max_bytes_per_trigger: int = 0

    @property
    def schema(self) -> str:
        """The columns as Spark SQL writes a schema."""
        return ", ".join(f"`{name}` {ALL_COLUMNS[name]}" for name in self.columns)


def read_options(given: Mapping[str, str], *, is_stream: bool | None = False) -> Options:
    """The options as a dataclass; raises WrongSetting. None: for either kind of read."""
    by_name = {name.lower(): value for name, value in given.items()}
    known = {name.lower(): name for name in _READERS}
    for name, value in by_name.items():
        if name not in known:
            raise WrongSetting(name, value, f"no such option; there are {', '.join(_READERS)}")
    if not by_name.get("path"):
        raise WrongSetting("path", "", "a data directory, or a directory named topic-partition")
    found = {
        name: reader(name, by_name[name.lower()])
        for name, (_, reader) in _READERS.items()
        if name.lower() in by_name
    }
    columns = found.pop("columns", None)
    if found.pop("includeHeaders", False) and columns is None:
        columns = tuple(COLUMNS)
    if columns is not None:
        found["columns"] = columns
    _check_pairs(found, is_stream)
    if is_stream and not {"startingOffsets", "startingTimestamp"} & set(found):
        found["startingOffsets"] = Offsets(LATEST)  # the connector's default for streams
    fields = {_READERS[name][0] or name: value for name, value in found.items()}
    return Options(**fields)  # type: ignore[arg-type]


def _check_pairs(found: Mapping[str, object], is_stream: bool | None) -> None:
    """Refuse options that contradict each other or the kind of read."""
    for one, other in (
        ("topics", "pattern"),
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
        ("maxRecordsPerTrigger", "maxBytesPerTrigger"),
    ):
        if one in found and other in found:
            raise WrongSetting(one, found[one], f"give this option or {other}, not both")
    for name in ("endingOffsets", "endingTimestamp"):
        if is_stream and name in found:
            raise WrongSetting(name, found[name], "a stream has no end; use spark.read")
    for name in ("maxRecordsPerTrigger", "maxBytesPerTrigger"):
        if is_stream is False and name in found:
            raise WrongSetting(name, found[name], "this is for streams; use spark.readStream")


def _text(name: str, value: str) -> str:
    return value


def _topics(name: str, value: str) -> tuple[str, ...]:
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        raise WrongSetting(name, value, "topics separated by commas")
    return topics


def _pattern(name: str, value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise WrongSetting(name, value, f"a regular expression ({error})") from error
    return value


def _partitions(name: str, value: str) -> frozenset[int]:
    found: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last < first + 1_000_000:
            raise WrongSetting(name, value, "numbers and ranges of numbers, as in 0,2,4-7")
        found.update(range(first, last + 1))
    return frozenset(found)


def _offsets(name: str, value: str) -> Offsets:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if value.lower() in words:
        if name == "endingOffsets" and value.lower() == "earliest":
            raise WrongSetting(name, value, "latest, or JSON of offsets")
        return Offsets(words[value.lower()])
    allowed = 'earliest, latest, or JSON as in {"topic": {"0": 123}} (-2 earliest, -1 latest)'
    try:
        each = {
            topic: {int(partition): _offset(offset) for partition, offset in offsets.items()}
            for topic, offsets in json.loads(value).items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise WrongSetting(name, value, allowed) from error
    # A partition that isn't named is read in full, as the connector does for new partitions.
    return Offsets(EARLIEST if name == "startingOffsets" else LATEST, each)


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -2 <= value <= _INT64_MAX:
        raise ValueError(value)
    return value


def _timestamp(name: str, value: str) -> int:
    if re.fullmatch(r"\d{1,16}", value):
        return int(value)
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        allowed = "milliseconds since 1970, or a time as in 2026-01-31T12:00:00Z"
        raise WrongSetting(name, value, allowed) from error
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def _columns(name: str, value: str) -> tuple[str, ...]:
    by_lower = {column.lower(): column for column in ALL_COLUMNS}
    names = [part.strip().lower() for part in value.split(",")]
    if set(names) - set(by_lower) or len(set(names)) != len(names):
        raise WrongSetting(name, value, f"some of {', '.join(ALL_COLUMNS)}, each once")
    return tuple(by_lower[part] for part in names)


def _one_of(words: Mapping[str, _Value]) -> Callable[[str, str], _Value]:
    def read(name: str, value: str) -> _Value:
        if value.lower() not in words:
            raise WrongSetting(name, value, " or ".join(words))
        return words[value.lower()]

    return read


def _number(most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not re.fullmatch(r"\d{1,18}", value) or not 1 <= int(value) <= most:
            raise WrongSetting(name, value, f"a number from 1 to {most}")
        return int(value)

    return read


_TRUTH = {"true": True, "false": False}

_READERS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "path": ("", _text),
    "topics": ("", _topics),
    "pattern": ("", _pattern),
    "partitions": ("", _partitions),
    "startingOffsets": ("starting", _offsets),
    "endingOffsets": ("ending", _offsets),
    "startingTimestamp": ("starting_timestamp", _timestamp),
    "endingTimestamp": ("ending_timestamp", _timestamp),
    "columns": ("", _columns),
    "includeHeaders": ("", _one_of(_TRUTH)),
    "isolation": ("is_committed", _one_of({READ_COMMITTED: True, "read_uncommitted": False})),
    "highWatermark": ("ignores_high_watermark", _one_of({"checkpoint": False, "ignore": True})),
    "failOnDataLoss": ("fails_on_data_loss", _one_of(_TRUTH)),
    "splitBytes": ("split_bytes", _number(_INT64_MAX)),
    "maxBatchBytes": ("max_batch_bytes", _number(_GIBIBYTE)),
    "maxRecordsPerTrigger": ("max_records_per_trigger", _number(_INT64_MAX)),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", _number(_INT64_MAX)),
}
"""For each option the name of its field in Options (if different), and the reader of its value."""
