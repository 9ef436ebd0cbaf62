"""Numbers, times and texts as the page writes them, and the paths of its charts."""

import pytest

from kwire.web.page import formats
from kwire.web.page.charts import chart


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_600, "1.0 MB"),
        (123_456_789, "123 MB"),
        (5e15, "5.0 PB"),
        (5e19, "50000 PB"),
        (None, "–"),  # noqa: RUF001
    ],
)
def test_sizes(value: float | None, text: str) -> None:
    """Three digits are enough."""
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000_4, "400 µs"),
        (0.0041, "4.1 ms"),
        (0.25, "250 ms"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3_725, "1 h 2 min"),
        (90_000, "1 d 1 h"),
        (-3, "0 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """The two largest units, without a zero."""
    assert formats.duration(seconds) == text


def test_times_of_hostile_producers() -> None:
    """A timestamp may be any 64-bit number."""
    assert formats.time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert formats.time_text((1 << 63) - 1) == str((1 << 63) - 1)
    assert formats.time_text(-1) == formats.NOTHING


def test_ranges_of_partitions() -> None:
    """Neighbors are one range, and long lists are cut."""
    assert formats.ranges([3, 1, 2, 7]) == "1-3, 7"
    assert formats.ranges(range(0, 1000, 2)).endswith("… (440 more)")
    assert formats.ranges([]) == ""


def test_a_chart_is_as_wide_as_its_points_need() -> None:
    """Points lie within the picture; without points there is no path."""
    nothing = chart("n", "Nothing", [], formats.number, 1_000_000)
    assert (nothing.line, nothing.area, nothing.now) == ("", "", formats.NOTHING)
    points = [(at_s * 1000, float(at_s % 7)) for at_s in range(100, 300)]
    drawn = chart("d", "Drawn", points, formats.number, 300_000)
    assert drawn.begin == "5 min ago"
    assert (drawn.most, drawn.half, drawn.top) == ("6", "3", "6")
    high = chart("h", "High", [(1000, 611_000.0)], formats.byte_rate, 1000)
    assert (high.half, high.top) == ("400 kB/s", "800 kB/s")
    day = [(at_s * 1000, float(at_s)) for at_s in range(0, 86_400, 30)]
    long = chart("l", "Long", day, formats.number, 86_400_000, 86_400)
    assert (long.begin, long.line.count("L")) == ("1 d ago", 299)
    places = [place.split(",") for place in drawn.line.removeprefix("M").split("L")]
    assert all(0 <= float(x) <= 600 and 0 <= float(y) <= 100 for x, y in places)
    assert drawn.area.startswith(drawn.line)
    assert drawn.area.endswith("Z")
