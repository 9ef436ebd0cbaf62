"""What clients push is read within limits of time and memory, or is malformed."""

from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.budget.validation_pool import DEBIT_S, FairThread
from kwire.budget.work import ClientGone, Turns, Work
from kwire.protocol import otlp
from kwire.protocol.otlp import FIELDS_AT_ONCE, MOST_ATTRIBUTES, MOST_POINTS, Point, points
from kwire.protocol.wire import MalformedRequest
from tests.metrics.pushes import added, attribute, field, gauge, pushed
from tests.support.clock import steps


def test_gauges_and_sums_are_read() -> None:
    """With the attributes of the client and of the point; histograms are skipped."""
    histogram = field(2, field(1, b"h") + field(9, field(1, b"")))
    data = pushed(
        gauge("a.b", 2.5, node="1"), added("c", -3), added("d", 4, 2), histogram, rack="r"
    )
    assert points(data) == [
        Point("a.b", (("rack", "r"), ("node", "1")), 2.5, False, False),
        Point("c", (("rack", "r"),), -3, True, True),
        Point("d", (("rack", "r"),), 4, True, False),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (field(1, "köln".encode()), "köln"),
        (b"\x10\x01", "true"),
        (b"\x10\x00", "false"),
        (b"\x18\x07", "7"),
        (b"\x18\x80\x01", "128"),
        (b"\x18" + b"\xff" * 9 + b"\x01", "-1"),
        (b"\x21" + pack("<d", 0.5), "0.5"),
    ],
)
def test_values_of_attributes_become_texts(value: bytes, text: str) -> None:
    """Texts, truth values, whole numbers, which may be below 0, and fractions."""
    (point,) = points(
        pushed(field(2, field(5, field(1, field(7, field(1, b"k") + field(2, value))))))
    )
    assert point.attributes == (("k", text),)


def test_a_value_of_another_type_is_no_value() -> None:
    """A field of eight bytes is one; a text that has its number is skipped as any unknown field."""
    point = field(4, b"no number") + field(6, b"neither")
    (read,) = points(pushed(field(2, field(1, b"a") + field(5, field(1, point)))))
    assert (read.name, read.value) == ("a", 0)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_broken_metrics_are_refused_and_nothing_else_happens(junk: bytes, at: int) -> None:
    """Whatever a client sends is read or is malformed."""
    data = pushed(gauge("a.b", 2.5, node="1"), added("c", -3), rack="r")
    for broken in (junk, data[:at], data[:at] + junk + data[at:]):
        try:
            points(broken)
        except MalformedRequest:
            continue


def test_a_push_has_a_limited_number_of_points() -> None:
    """A megabyte could hold a hundred thousand."""
    with pytest.raises(MalformedRequest, match="more than 10000 data points"):
        points(pushed(field(2, field(5, field(1, b"") * (MOST_POINTS + 1)))))


def test_a_push_has_a_limited_number_of_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown field takes two bytes: 8 KB of gzip would be read for many seconds."""
    monkeypatch.setattr(otlp, "MOST_FIELDS", 3000)
    for data in (bytes([0x78, 0]) * 4000, pushed(field(2, bytes([0x78, 0]) * 4000))):
        with pytest.raises(MalformedRequest, match="more than 3000 fields"):
            points(data)


def test_as_many_fields_as_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit itself is allowed."""
    monkeypatch.setattr(otlp, "MOST_FIELDS", 2 * FIELDS_AT_ONCE)
    assert points(bytes([0x78, 0]) * (2 * FIELDS_AT_ONCE)) == []


def test_the_largest_push_of_kafkas_client_is_read() -> None:
    """Its metrics are messages of their own; each point has two times and four attributes."""
    point = bytes([0x11, *bytes(8), 0x19, *bytes(8), 0x31, *bytes(8)])
    point += b"".join(attribute(7, key, "value") for key in "abcd")
    name = field(1, b"org.apache.kafka.consumer")
    total = field(7, field(1, point) + bytes([16, 1, 24, 1]))
    one = field(1, field(1, b"") + field(2, field(2, name + total)))
    assert len(points(one * MOST_POINTS)) == MOST_POINTS


def test_others_have_their_turn_after_so_many_fields() -> None:
    """A turn after each field would take longer than the reading."""
    turns: list[None] = []
    points(bytes([0x78, 0]) * (5 * FIELDS_AT_ONCE + 1), lambda: turns.append(None))
    assert len(turns) == 5


async def test_reading_a_push_counts_and_ends_with_its_client() -> None:
    """A client that pushes much waits behind others; nobody reads for a client that has gone."""
    fields = 100 * FIELDS_AT_ONCE
    pushed_ = bytes([0x78, 0]) * fields
    is_gone = [False]
    work = Work(Turns(), is_gone=lambda: is_gone[0])
    stretch_s = 0.001
    thread = FairThread(steps(stretch_s))
    assert await thread.run(work, points, pushed_) == []
    assert work.thread_s is not None
    assert work.thread_s - DEBIT_S >= 100 * stretch_s

    def read(what: bytes, between: Callable[[], None]) -> list[Point]:
        is_gone[0] = True
        return points(what, between)

    with pytest.raises(ClientGone):
        await thread.run(work, read, pushed_)


def test_what_is_read_of_a_push_has_a_limited_number_of_attributes() -> None:
    """Or a client with many attributes would have each of its points carry a copy of all."""
    many = {f"k{n}": "v" for n in range(2 * MOST_ATTRIBUTES)}
    assert {len(one.attributes) for one in points(pushed(gauge("m", 1), **many))} == {
        MOST_ATTRIBUTES
    }
    resource = field(1, attribute(1, "k", "v") * 100_000)
    metric = field(2, field(5, field(1, b"") * MOST_POINTS))
    assert len(points(field(1, resource + field(2, metric)))) == MOST_POINTS
