"""``make spark-chaos``: streams into each sink, while driver, workers and broker are killed.

``python -m spark_tests.chaos --sink delta --records 100000 --kills 8 --seed 1`` runs one sink;
``all`` is each of the lane's sinks, and files once more on a standalone cluster with a master and
two workers, whose executors are killed. KWIRE_BOOTSTRAP names another broker, which isn't killed.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_tests.chaos.trial import Outcome, Trial

ANYWHERE = ("parquet", "json", "delta-rs", "topic")
WITH_JARS = ("delta", "iceberg", "upsert")
"""The stock lane has their jars."""


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
    options = parser.parse_args()
    for one in (signal.SIGTERM, signal.SIGINT):  # what it has started must not outlive it
        signal.signal(one, lambda number, frame: sys.exit(128 + number))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"seed {options.seed}")
    chosen = [(one, options.cluster) for one in (kinds if options.sink == "all" else ())]
    if options.sink != "all":
        chosen = [(options.sink, options.cluster)]
    elif not options.cluster:
        chosen.append(("parquet", True))
    outcomes = [_run(kind, is_cluster, options, console) for kind, is_cluster in chosen]
    console.print(_table(outcomes))
    return 1 if any(one.failure for one in outcomes) else 0


def _run(kind: str, on_cluster: bool, options: argparse.Namespace, console: Console) -> Outcome:
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{kind}-"))
    began_s = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{trial.outcome.name}, {time.monotonic() - began_s:.0f} s: {text}")

    trial = Trial(
        kind,
        directory / "trial",
        records=options.records,
        kills=options.kills,
        seed=options.seed,
        bootstrap=os.environ.get("KWIRE_BOOTSTRAP", ""),
        on_cluster=on_cluster,
        tell=tell,
    )
    try:
        with trial:
            trial.run()
        tell("each record is there once")
    except Exception as error:
        trial.outcome.failure = str(error).strip().splitlines()[0] if str(error) else repr(error)
        tell("".join(traceback.format_exception(error)))
        tell(f"what is left is in {directory}")
    trial.outcome.took_s = time.monotonic() - began_s
    return trial.outcome


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
