"""Several trials at the same time, each in a process of its own.

A trial often waits, for a driver that starts or for the broker, and leaves a part of the processors
idle: two trials at the same time take less than twice as long as one.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console

from spark_tests.chaos.trial import Outcome, Trial


def end_cleanly() -> None:
    """Let signals end the process by an exception: what it has started must not outlive it."""
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, frame: sys.exit(128 + number))


def console_of_lines() -> Console:
    """A console that breaks no line."""
    return Console(highlight=False, soft_wrap=True)


def run_all(chosen: list[tuple[str, bool]], options: argparse.Namespace) -> list[Outcome]:
    """The outcomes of the trials, in their order."""
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, processes, end_cleanly) as pool:
        running = [
            pool.submit(_run_or_end, kind, on_cluster, options) for kind, on_cluster in chosen
        ]
        try:
            return [one.result() for one in running]
        except SystemExit:
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _run_or_end(kind: str, on_cluster: bool, options: argparse.Namespace) -> Outcome:
    """A trial; a signal ends the whole process after it, or it would begin another trial."""
    try:
        return _run(kind, on_cluster, options)
    except SystemExit:
        os._exit(1)


def _run(kind: str, on_cluster: bool, options: argparse.Namespace) -> Outcome:
    console = console_of_lines()
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
