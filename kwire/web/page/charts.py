"""Charts of values over time, as paths for SVG. The page and its script draw the same paths.

The axis begins at zero and ends at a round number; its labels are HTML, beside the SVG.
"""

from collections.abc import Callable, Iterable
from math import floor, log10
from typing import NamedTuple

from kwire.web.page.formats import duration, time_text

WIDTH, HEIGHT = 600, 100
WINDOWS_S = (120, 300, 900, 3600, 6 * 3600, 24 * 3600)
MOST_POINTS = 300

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
    top: str
    half: str
    begin: str
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
    top = _round_up(most)
    line = _line(_thinned(seen, begin_ms, window_s), begin_ms, window_s, top)
    now = show(seen[-1][1]) if seen else show(None)
    area = ""
    if line:
        first, last = line[1:].partition(",")[0], line.rpartition("L")[2].partition(",")[0]
        area = f"{line}L{last},{HEIGHT}L{first},{HEIGHT}Z"
    since = f" since {time_text(seen[0][0])} UTC" if seen else ""
    half = show(top / 2)
    summary = f"{title}: now {now}, at most {show(most if seen else None)}{since}"
    return Chart(
        name,
        title,
        line,
        area,
        now,
        show(most if seen else None),
        show(top) if top else "",
        half if half not in (show(top), show(0)) else "",
        f"{duration(window_s)} ago",
        summary,
    )


def _round_up(most: float) -> float:
    """The number at the top of the axis: a round one that is not below ``most``."""
    if most <= 0:
        return 0.0
    step = 10.0 ** floor(log10(most))
    return float(next(step * times for times in (1, 2, 4, 6, 8, 10, 20) if step * times >= most))


def _thinned(seen: Points, begin_ms: int, window_s: int) -> Points:
    """At most ``MOST_POINTS``: of those that are close together, the largest."""
    if len(seen) <= MOST_POINTS:
        return seen
    kept: dict[int, tuple[int, float]] = {}
    for point in seen:
        place = (point[0] - begin_ms) * MOST_POINTS // (window_s * 1000 + 1)
        kept[place] = max(kept.get(place, point), point, key=lambda one: one[1])
    return list(kept.values())


def _line(seen: Points, begin_ms: int, window_s: int, top: float) -> str:
    """The path; a single point becomes a short line."""
    top = top or 1.0
    places = [
        ((at_ms - begin_ms) / (window_s * 1000) * WIDTH, HEIGHT - 1 - value / top * (HEIGHT - 8))
        for at_ms, value in seen
    ]
    if len(places) == 1:
        places.insert(0, (places[0][0] - 2, places[0][1]))
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places) if places else ""
