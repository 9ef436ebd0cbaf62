"""Every metric of a broker: its name, its type, its labels, and its meaning.

The table is ``definitions.tsv``, from which docs/METRICS.md is made. Counters end in ``_total`` and
begin with 0 at the start of the broker. Times are seconds, sizes are bytes. The last part of the
table has the metrics that the library prometheus_client adds.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Definition(NamedTuple):
    """One metric; ``part`` is the title above it in docs/METRICS.md."""

    part: str
    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


@cache
def definitions() -> Mapping[str, Definition]:
    """Every metric by its name, in the order of the table."""
    table = Path(__file__).with_name("definitions.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    return {
        name: Definition(part, name, kind, tuple(labels.split()), text)
        for part, name, kind, labels, text in rows
    }
