"""Charts of values over time, as paths for SVG. The page and its script draw the same paths."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kwire.web.page.formats import duration, time_text

WIDTH, HEIGHT = 600, 100
WINDOWS_S = (120, 300, 900, 3600)

Points = list[tuple[int, float]]
"""Times in ms since the epoch, ascending, each with its value."""


class Chart(NamedTuple):
    """The content of a chart: the paths of its line and of the area below, and its texts."""

    name: str
    title: str
    line: str
    area: str
    now: str
    most: str
    window: str
    summary: str


def chart(
    name: str,
    title: str,
    points: Iterable[tuple[int, float]],
    show: Callable[[float | None], str],
    end_ms: int,
    most_s: int = 900,
) -> Chart:
    """A chart of the time before ``end_ms``; ``show`` makes text of a value.

    The chart is as wide as the points need, one of ``WINDOWS_S``, and ``most_s`` at the most.
    """
    seen = [one for one in points if end_ms - most_s * 1000 <= one[0] <= end_ms]
    span_s = (end_ms - seen[0][0]) / 1000 if seen else 0
    window_s = next((one for one in WINDOWS_S if span_s <= one), most_s)
    begin_ms = end_ms - window_s * 1000
    most = max((value for _, value in seen), default=0.0)
    line = _line(seen, begin_ms, window_s, most)
    now = show(seen[-1][1]) if seen else show(None)
    area = ""
    if line:
        first, last = line[1:].partition(",")[0], line.rpartition("L")[2].partition(",")[0]
        area = f"{line}L{last},{HEIGHT}L{first},{HEIGHT}Z"
    since = f" since {time_text(seen[0][0])} UTC" if seen else ""
    window = f"last {duration(window_s)}"
    summary = f"{title}: now {now}, at most {show(most if seen else None)}{since}"
    return Chart(name, title, line, area, now, show(most if seen else None), window, summary)


def _line(seen: Points, begin_ms: int, window_s: int, most: float) -> str:
    """The path; a single point becomes a short line."""
    top = most or 1.0
    places = [
        ((at_ms - begin_ms) / (window_s * 1000) * WIDTH, HEIGHT - 1 - value / top * (HEIGHT - 8))
        for at_ms, value in seen
    ]
    if len(places) == 1:
        places.insert(0, (places[0][0] - 2, places[0][1]))
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places) if places else ""
