"""One number of the cluster's table, and how many there are of it."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Number(NamedTuple):
    """A row: what was measured, in which unit, and the bar, with ``at_least`` where more is better.

    A row without a bar only informs.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the bar is reached; always, without one."""
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values doesn't exceed."""
    ordered = sorted(values)
    rank = math.ceil(round(len(ordered) * share, 6))  # 20 * 0.95 is a little more than 19
    return ordered[max(rank, 1) - 1]


def table(numbers: Sequence[Number]) -> str:
    """The rows, as Markdown."""
    lines = ["| what | unit | kwire | bar |  |", "| --- | --- | ---: | ---: | --- |"]
    for one in numbers:
        sign = "≥" if one.at_least else "≤"
        bar = "" if one.bar is None else f"{sign} {one.bar:g}"
        verdict = "" if one.bar is None else ("met" if one.is_met else "not met")
        shown = f"{one.value:,.0f}" if one.value >= 100 else f"{one.value:.3g}"
        lines.append(f"| {one.name} | {one.unit} | {shown} | {bar} | {verdict} |")
    return "\n".join(lines)
