"""``make spark-chaos``: streams into each sink, while driver, workers and broker are killed.

``python -m spark_tests.chaos --sink delta --records 100000 --kills 8 --seed 1`` runs one sink;
``all`` is each of the lane's sinks, and files once more on a standalone cluster with a master and
two workers, whose executors are killed. KWIRE_BOOTSTRAP names another broker, which isn't killed.

``--jobs`` runs several trials at the same time.
"""

import argparse
import os
import sys
import time

from rich.table import Table

from spark_tests.chaos.at_once import console_of_lines, end_cleanly, run_all
from spark_tests.chaos.trial import Outcome

ANYWHERE = ("parquet", "json", "delta-rs", "pyiceberg", "topic")
WITH_JARS = ("delta", "iceberg", "upsert", "upsert-iceberg")
"""The stock lane has their jars."""
JOBS = 1


def main() -> int:
    """Run the trials; 0 if each record was there once in all of them."""
    with_jars = os.environ.get("KWIRE_SPARK_LANE") == "stock"
    kinds = (*ANYWHERE, *WITH_JARS) if with_jars else ANYWHERE
    parser = argparse.ArgumentParser(prog="make spark-chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--sink", choices=(*kinds, "all"), default="all")
    parser.add_argument("--records", type=int, default=1_000_000, help="for each sink")
    parser.add_argument("--kills", type=int, default=20, help="for each sink")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cluster", action="store_true", help="on a standalone cluster")
    parser.add_argument("--jobs", type=int, default=JOBS, help="trials at the same time")
    options = parser.parse_args()
    end_cleanly()
    console = console_of_lines()
    console.print(f"seed {options.seed}")
    chosen = [(one, options.cluster) for one in (kinds if options.sink == "all" else ())]
    if options.sink != "all":
        chosen = [(options.sink, options.cluster)]
    elif not options.cluster:
        chosen.append(("parquet", True))
    outcomes = run_all(chosen, options)
    console.print(_table(outcomes))
    return 1 if any(one.failure for one in outcomes) else 0


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="Each record once?")
    for name in ("sink", "records", "kills", "ended by itself", "time", "result"):
        is_number = name in ("records", "ended by itself", "time")
        table.add_column(name, justify="right" if is_number else "left")
    for one in outcomes:
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(one.kills.items()))
        table.add_row(
            one.name,
            f"{one.records:,}",
            kills,
            str(len(one.ended)),
            f"{one.took_s:.0f} s",
            one.failure or "each once",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
