"""The rows of the table: what is measured of a broker, and in which unit.

A row's function starts from a running broker and returns one number; ``more_is_better`` lets ratios
be read the same way in every row. Several rows may look at one load, which then runs once a round.
"""

from bench.rows.cold import COLD_ROWS
from bench.rows.common import Row
from bench.rows.compaction import COMPACTION_ROWS
from bench.rows.consumer_groups import CONSUMER_GROUP_ROWS
from bench.rows.fetch import FETCH_ROWS
from bench.rows.groups import GROUP_ROWS
from bench.rows.memory import MEMORY_ROWS
from bench.rows.produce import PRODUCE_ROWS
from bench.rows.scale import SCALE_ROWS
from bench.rows.together import TOGETHER_ROWS
from bench.rows.transactions import TRANSACTION_ROWS

ROWS: list[Row] = [
    *PRODUCE_ROWS,
    *FETCH_ROWS,
    *COLD_ROWS,
    *GROUP_ROWS,
    *CONSUMER_GROUP_ROWS,
    *TOGETHER_ROWS,
    *TRANSACTION_ROWS,
    *MEMORY_ROWS,
    *COMPACTION_ROWS,
    *SCALE_ROWS,
]
"""Measured in every round."""
