"""The rows of the table: what is measured of a broker, and in which unit.

A row's function takes a running broker and returns one number. ``more_is_better`` says how to read
the row's ratio. Several rows may read one load, which then runs once a round.
"""

from bench.rows.cold import COLD_ROWS
from bench.rows.committed import COMMITTED_ROWS
from bench.rows.common import Row
from bench.rows.compaction import COMPACTION_ROWS
from bench.rows.consumer_groups import CONSUMER_GROUP_ROWS
from bench.rows.fetch import FETCH_ROWS
from bench.rows.groups import GROUP_ROWS
from bench.rows.librdkafka import LIBRDKAFKA_ROWS
from bench.rows.many_partitions import MANY_PARTITIONS_ROWS
from bench.rows.memory import IDLE_ROWS, MEMORY_ROWS
from bench.rows.mix import MIX_ROWS
from bench.rows.produce import PRODUCE_ROWS
from bench.rows.scale import SCALE_ROWS
from bench.rows.share import SHARE_ROWS
from bench.rows.spark import SPARK_ROWS
from bench.rows.together import TOGETHER_ROWS
from bench.rows.transactions import TRANSACTION_ROWS

START = Row("start to first acknowledged record", "s", False, lambda running: 0.0)
"""Measured by ``bench.session``, which starts the broker."""

SECTIONS: dict[str, list[Row]] = {
    "Start and memory": [START, *IDLE_ROWS],
    "Producing": PRODUCE_ROWS,
    "Fetching": [*FETCH_ROWS, *COMMITTED_ROWS, *COLD_ROWS],
    "Many partitions in a request": MANY_PARTITIONS_ROWS,
    "Groups": [*GROUP_ROWS, *TOGETHER_ROWS, *CONSUMER_GROUP_ROWS],
    "Share groups": SHARE_ROWS,
    "Stock clients": [*LIBRDKAFKA_ROWS, *SPARK_ROWS],
    "A mix of clients": MIX_ROWS,
    "Exactly once": TRANSACTION_ROWS,
    "Memory after the load": MEMORY_ROWS,
    "Compaction": COMPACTION_ROWS,
    "Many groups": SCALE_ROWS,
}
"""Every row, in the order in which rows are measured and shown."""

ALL_ROWS: list[Row] = [row for rows in SECTIONS.values() for row in rows]

ROWS: list[Row] = [row for row in ALL_ROWS if row not in (START, *IDLE_ROWS)]
"""The rows that are measured on running brokers; slow rows not in every round."""

SLOW: frozenset[str] = frozenset(
    row.name for row in (*SPARK_ROWS, *MIX_ROWS, *COMPACTION_ROWS, *SCALE_ROWS)
)
"""Rows that need half a minute or more, and are measured in fewer rounds."""
