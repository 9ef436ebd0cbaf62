"""The warm-up: loads of every kind that the rows have, so that Java's compiler has seen them.

Single records take the time that is asked for, large batches and fetches a quarter of it each.
"""

from bench.rows.common import Running
from bench.rows.fetch import fetch_load
from bench.rows.produce import produce_load
from bench.usage import MB


def warm_up(running: Running, seconds: float) -> None:
    """Load a broker, and forget the numbers."""
    if seconds <= 0:
        return
    short = Running(running.broker, running.generator, seconds / 4)
    produce_load(Running(running.broker, running.generator, seconds), "warm-up", 1, 100, 4, 4)
    produce_load(short, "warm-up of batches", 100, 100, 1, 5)
    fetch_load(short, "warm-up of fetches", MB)
