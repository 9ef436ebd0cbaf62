"""Writes records as lines, and reads records from lines of JSON.

A record as a line of JSON::

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1700000000000,
     "key": "customer-1", "value": "order 7", "headers": [["trace", "a1"]]}

Rules:

- Bytes are a JSON string if they are UTF-8, else ``{"base64": "…"}``. null stays null.
- ``kwire produce --format json`` reads what ``kwire consume --json`` writes. It takes the partition
  and the timestamp from the line unless told otherwise, and ignores topic and offset.
"""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from kwire.cli.tables import one_line, printable_json
from kwire.client.leaders import TopicPartition
from kwire.record.records import Headers, Record

Format: TypeAlias = Callable[[TopicPartition, Record], bytes]
"""Writes one record, with the end of its line."""


class RecordLineError(ValueError):
    """A line is not a record; the text says why."""


class ReadRecord(NamedTuple):
    """A record from a line; None for fields that the line lacks."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def write_json(partition: TopicPartition, record: Record) -> bytes:
    """A line of JSON."""
    fields = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [
            [_json_bytes(name.encode(errors="surrogateescape")), _json_bytes(value)]
            for name, value in record.headers
        ],
    }
    text = json.dumps(fields, ensure_ascii=False)
    return printable_json(text).encode() + b"\n"  # readers may also cut lines at such characters


def write_value(partition: TopicPartition, record: Record) -> bytes:
    """The value and a line feed; an empty line for a record without a value."""
    return (record.value or b"") + b"\n"


def write_raw(partition: TopicPartition, record: Record) -> bytes:
    """The value alone."""
    return record.value or b""


def write_key_value(separator: bytes) -> Format:
    """Key, separator and value."""

    def write(partition: TopicPartition, record: Record) -> bytes:
        return (record.key or b"") + separator + (record.value or b"") + b"\n"

    return write


def write_visible(form: Format, partition: TopicPartition, record: Record) -> bytes:
    """The output of ``form``, with escapes for control characters; tabs and line feeds stay."""
    text = form(partition, record).decode(errors="backslashreplace")
    kept = (one if one in "\t\n" else one_line(one) for one in text)
    return (text if text.isprintable() else "".join(kept)).encode()


def write_hex(partition: TopicPartition, record: Record) -> bytes:
    """Partition, offset, and the bytes of key and value in hexadecimal digits."""
    parts = [f"{partition}@{record.offset}", f"key={_hex(record.key)}"]
    parts.append(f"value={_hex(record.value)}")
    parts += [
        f"{_shown(name.encode(errors='surrogateescape'))}={_hex(value)}"
        for name, value in record.headers
    ]
    return " ".join(parts).encode() + b"\n"


def write_pretty(partition: TopicPartition, record: Record) -> bytes:
    """For people: topic, partition, offset, time, key, value, headers."""
    headers = " ".join(
        f"{_shown(name.encode(errors='surrogateescape'))}={_shown(value)}"
        for name, value in record.headers
    )
    parts = [f"{partition}@{record.offset}", time_text(record.timestamp)]
    if record.key is not None:
        parts.append(f"[{_shown(record.key)}]")
    parts.append(_shown(record.value))
    if headers:
        parts.append(f"({headers})")
    return "  ".join(parts).encode() + b"\n"


FORMATS: dict[str, Format] = {
    "value": write_value,
    "pretty": write_pretty,
    "json": write_json,
    "hex": write_hex,
    "raw": write_raw,
}
"""The formats by name; ``key-value`` needs a separator."""


def read_json(line: bytes) -> ReadRecord:
    """A record from a line of JSON; RecordLineError."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise RecordLineError(f"it is not JSON ({error})") from error
    except RecursionError as error:
        raise RecordLineError("its lists and objects are nested too deeply") from error
    if not isinstance(found, dict):
        raise RecordLineError("it is not a JSON object")
    headers = found.get("headers") or []
    if not isinstance(headers, list) or any(
        not isinstance(one, list) or len(one) != 2 for one in headers
    ):
        raise RecordLineError('headers must be a list of pairs, [["name", "value"]]')
    return ReadRecord(
        key=_bytes(found.get("key"), "key"),
        value=_bytes(found.get("value"), "value"),
        headers=tuple(
            (
                (_bytes(name, "a header") or b"").decode(errors="surrogateescape"),
                _bytes(value, "a header"),
            )
            for name, value in headers
        ),
        partition=_number(found.get("partition"), "partition", 32),
        timestamp=_number(found.get("timestamp"), "timestamp", 64),
    )


def _bytes(found: Any, what: str) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str):
        return found.encode(errors="surrogatepass")
    if isinstance(found, dict) and isinstance(found.get("base64"), str):
        try:
            return base64.b64decode(found["base64"], validate=True)
        except ValueError as error:
            raise RecordLineError(f"{what} is not base64") from error
    raise RecordLineError(f'{what} must be a string, null or {{"base64": "…"}}')


def _number(found: Any, what: str, bits: int) -> int | None:
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        raise RecordLineError(f"{what} must be a whole number")
    if not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise RecordLineError(f"{what} must be a whole number of {bits} bits")
    return found


def _json_bytes(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _hex(content: bytes | None) -> str:
    return "null" if content is None else content.hex() or '""'


def _shown(content: bytes | None) -> str:
    return "null" if content is None else one_line(content.decode(errors="backslashreplace"))


def time_text(timestamp_ms: int) -> str:
    """A time as people read it, here ``-`` for none; ``timestamp_ms`` in ms since the epoch."""
    if timestamp_ms < 0:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return f"@{timestamp_ms}"
    return at.isoformat(sep=" ", timespec="milliseconds")
