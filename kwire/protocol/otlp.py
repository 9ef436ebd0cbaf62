"""Metrics in the binary format of OpenTelemetry (OTLP), as clients push them to brokers (KIP-714).

Format: Protocol Buffers. A message is a row of fields, each a key (varint: field number << 3 | wire
type) and a value: a varint (type 0), 8 bytes (1), a length and so many bytes (2), 4 bytes (5)::

    MetricsData      1: ResourceMetrics…
    ResourceMetrics  1: Resource, 2: ScopeMetrics…
    Resource         1: KeyValue…
    ScopeMetrics     2: Metric…
    Metric           1: name, 5: Gauge, 7: Sum
    Gauge, Sum       1: NumberDataPoint…; Sum 2: temporality (1: delta), 3: only grows
    NumberDataPoint  4: double, 6: int64 (8 bytes), 7: KeyValue…
    KeyValue         1: key, 2: AnyValue
    AnyValue         1: text, 2: boolean, 3: int64 (varint), 4: double

Rules:

- Unknown fields are skipped, as Protocol Buffers want it; so are histograms, which Kafka's clients
  don't push.
- MalformedRequest is raised for bytes that aren't such a message, for too many data points, and for
  too many fields: two bytes are a field, so a small compressed push may hold millions.
- A point has at most ``MOST_ATTRIBUTES`` attributes; further ones aren't read.

Kafka's clients and librdkafka write nothing else, so this reader replaces a library that is larger
than kwire. Source: opentelemetry/proto/metrics/v1/metrics.proto.
"""

from collections.abc import Callable, Iterator
from itertools import chain, islice
from struct import Struct, error
from typing import NamedTuple, TypeAlias

from kwire.protocol.wire import MalformedRequest

MOST_POINTS = 10_000
MOST_ATTRIBUTES = 32
MOST_FIELDS = 60 * MOST_POINTS
"""A field counts each time that it is read. Kafka's Java client writes points of four attributes
with less than 60; reading so many fields takes about a second."""

FIELDS_AT_ONCE = 300
"""Reading so many fields takes about half a millisecond."""

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_DOUBLE = Struct("<d")
_INT64 = Struct("<q")
_DELTA = 1

Attributes: TypeAlias = tuple[tuple[str, str], ...]
_Value: TypeAlias = int | memoryview


class Point(NamedTuple):
    """One value; ``attributes`` has the attributes of the client, and then those of the point.

    A sum with ``is_delta`` is the increase since the last push.
    """

    name: str
    attributes: Attributes
    value: float
    is_sum: bool
    is_delta: bool


def points(data: bytes | memoryview, between: Callable[[], None] = lambda: None) -> list[Point]:
    """All values in a push; MalformedRequest.

    ``between`` is called after every ``FIELDS_AT_ONCE`` fields. It may raise to stop the reading.
    """
    found: list[Point] = []
    try:
        for point in _Reader(between).points(memoryview(data)):
            if len(found) >= MOST_POINTS:
                raise MalformedRequest(f"more than {MOST_POINTS} data points")
            found.append(point)
    except (IndexError, error, UnicodeDecodeError) as cut:
        raise MalformedRequest(f"metrics that are not OTLP: {cut}") from cut
    return found


class _Reader:
    """Reads one push, and counts the fields that it reads."""

    __slots__ = ("_between", "_seen")

    def __init__(self, between: Callable[[], None]) -> None:
        self._between = between
        self._seen = 0

    def points(self, data: memoryview) -> Iterator[Point]:
        for of_resource in self._all(data, 1):
            pairs = (
                pair for part in self._all(of_resource, 1) for pair in self._attributes(part, 1)
            )
            resource = tuple(islice(pairs, MOST_ATTRIBUTES))
            for scope in self._all(of_resource, 2):
                for metric in self._all(scope, 2):
                    yield from self._metric(metric, resource)

    def _metric(self, metric: memoryview, resource: Attributes) -> Iterator[Point]:
        name = "".join(str(part, "utf-8") for part in self._all(metric, 1))
        for number, is_sum in ((5, False), (7, True)):
            for data in self._all(metric, number):
                is_delta = any(value == _DELTA for value in self._numbers(data, 2))
                for point in self._all(data, 1):
                    attributes = tuple(
                        islice(chain(resource, self._attributes(point, 7)), MOST_ATTRIBUTES)
                    )
                    yield Point(name, attributes, self._value(point), is_sum, is_sum and is_delta)

    def _value(self, point: memoryview) -> float:
        value: float = 0
        for number, of_type, content in self._fields(point):
            if of_type == _EIGHT and isinstance(content, memoryview):
                if number == 4:
                    (value,) = _DOUBLE.unpack(content)
                elif number == 6:
                    (value,) = _INT64.unpack(content)
        return value

    def _attributes(self, message: memoryview, number: int) -> Iterator[tuple[str, str]]:
        """The attributes in the fields of this number, their values as texts."""
        for pair in self._all(message, number):
            key = "".join(str(part, "utf-8") for part in self._all(pair, 1))
            for value in self._all(pair, 2):
                yield key, self._any_value(value)

    def _any_value(self, message: memoryview) -> str:
        for number, of_type, content in self._fields(message):
            if isinstance(content, int):
                if number == 2:
                    return "true" if content else "false"
                if number == 3:
                    return str(content - (1 << 64) if content >> 63 else content)
            elif number == 1 and of_type == _BYTES:
                return str(content, "utf-8")
            elif number == 4 and of_type == _EIGHT:
                return str(_DOUBLE.unpack(content)[0])
        return ""

    def _all(self, message: memoryview, number: int) -> Iterator[memoryview]:
        """The contents of the fields of this number that are messages, texts or bytes."""
        for found, of_type, content in self._fields(message):
            if found == number and of_type == _BYTES and isinstance(content, memoryview):
                yield content

    def _numbers(self, message: memoryview, number: int) -> Iterator[int]:
        for found, _, content in self._fields(message):
            if found == number and isinstance(content, int):
                yield content

    def _fields(self, message: memoryview) -> Iterator[tuple[int, int, _Value]]:
        """Number, wire type and content of each field."""
        at = 0
        while at < len(message):
            self._seen += 1
            if not self._seen % FIELDS_AT_ONCE:
                self._pause()
            key, at = _varint(message, at)
            of_type = key & 7
            if of_type == _VARINT:
                value, at = _varint(message, at)
                yield key >> 3, of_type, value
                continue
            if of_type == _BYTES:
                size, at = _varint(message, at)
            elif of_type in (_EIGHT, _FOUR):
                size = 8 if of_type == _EIGHT else 4
            else:
                raise MalformedRequest(f"metrics that are not OTLP: wire type {of_type}")
            if size > len(message) - at:
                raise MalformedRequest("metrics that are not OTLP: a field is cut off")
            yield key >> 3, of_type, message[at : at + size]
            at += size

    def _pause(self) -> None:
        if self._seen > MOST_FIELDS:
            raise MalformedRequest(f"more than {MOST_FIELDS} fields")
        self._between()


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise MalformedRequest("metrics that are not OTLP: a number is too long")
