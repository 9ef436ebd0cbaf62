"""The warm-up: single records for a while, then every quick row once, so that Java has compiled it.

What a row needs minutes for, or what starts programs of its own, warms itself up or is measured as
it is: nothing of that is repeated here.
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
"""A row is warmed up for this part of the time that single records are sent."""


SAME_CODE = "1,000 partitions"
"""Rows with that take long, and run nothing that rows of a hundred don't."""


KWIRE_WARM_UP = 0.1
"""kwire is warmed up for this part of the time that Java gets: there is nothing to compile."""


def warm_up_of(name: str, seconds: float) -> float:
    """How long a broker is warmed up, where Java is so many seconds."""
    return seconds if name == KAFKA else seconds * KWIRE_WARM_UP


def warm_up(running: Running, seconds: float, rows: list[Row]) -> None:
    """Load a broker, and forget the numbers; ``rows``: those that will be measured."""
    if seconds <= 0:
        return
    produce_load(running.shorter(seconds), "warm-up", 1, 100, 4, 4)
    short = running.shorter(seconds * ROW_SHARE)
    for row in QUICK_ROWS:
        if row in rows and row.load not in short.runs and SAME_CODE not in row.name:
            # What can't be measured is noted when it is to be measured.
            with suppress(Exception):
                row.measure(short)
