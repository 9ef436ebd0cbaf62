"""The warm-up: single records for a while, then every quick row once, so that Java has compiled it.

Rows that take minutes or start programs of their own are not part of it: they warm up themselves,
or are measured without.
"""

from contextlib import suppress

from bench.brokers import KAFKA
from bench.rows.committed import COMMITTED_ROWS
from bench.rows.common import Row, Running
from bench.rows.fetch import FETCH_ROWS
from bench.rows.groups import GROUP_ROWS
from bench.rows.librdkafka import LIBRDKAFKA_ROWS
from bench.rows.many_partitions import MANY_PARTITIONS_ROWS
from bench.rows.produce import PRODUCE_ROWS, produce_load
from bench.rows.transactions import TRANSACTION_ROWS

QUICK_ROWS: list[Row] = [
    *PRODUCE_ROWS,
    *FETCH_ROWS,
    *COMMITTED_ROWS,
    *MANY_PARTITIONS_ROWS,
    *LIBRDKAFKA_ROWS,
    *GROUP_ROWS,
    *TRANSACTION_ROWS,
]
ROW_SHARE = 1 / 20
"""Each row is warmed up for this part of the time in which single records are sent."""


SAME_CODE = "1,000 partitions"
"""A mark of rows that take long and run the same code as the rows with a hundred partitions."""


KWIRE_WARM_UP = 0.1
"""kwire is warmed up for this part of Java's time, because it has no JIT compiler."""


def warm_up_of(name: str, seconds: float) -> float:
    """The length of a broker's warm-up, given that of a Java broker."""
    return seconds if name == KAFKA else seconds * KWIRE_WARM_UP


def warm_up(running: Running, seconds: float, rows: list[Row]) -> None:
    """Load a broker and ignore the numbers; ``rows`` are the rows that will be measured."""
    if seconds <= 0:
        return
    produce_load(running.shorter(seconds), "warm-up", 1, 100, 4, 4)
    short = running.shorter(seconds * ROW_SHARE)
    for row in QUICK_ROWS:
        if row in rows and row.load not in short.runs and SAME_CODE not in row.name:
            # If the row can't be measured, the measurement itself will note that.
            with suppress(Exception):
                row.measure(short)
