"""What ``compact``, ``expire`` and ``replay`` have in common: options, a session, the outcome."""

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from kwire.cli.tables import show
from kwire.spark.commands.reading import add_file, fail_with, read_or_tell
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.java_runtime import NoJava
from kwire.spark.query import error_line
from kwire.spark.session import NoSpark, open_session
from kwire.spark.settings import PipelineSettings
from kwire.spark.sink import Sink
from kwire.spark.sinks import make_sink
from kwire.spark.spark_log import SparkLog, log_of
from kwire.spark.upkeep import Done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHERS = ("pyspark.", "py4j.", "deltalake", "pyiceberg.", "_internal")
"""How the modules of errors begin that the engines and table formats raise."""

COLUMNS = {"files_before": "FILES BEFORE", "files_after": "FILES AFTER", "rows": "ROWS"}


def add_common(parser: argparse.ArgumentParser) -> None:
    """The pipeline's file, and ``--json``."""
    add_file(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def session_of(settings: PipelineSettings, log: SparkLog, bar: WorkBar) -> "SparkSession":
    """A session, whose messages go to ``log`` and whose progress to ``bar``; RuntimeError."""
    bar.show("starting Spark", 0, 0)
    try:
        spark = open_session(settings, log)
        bar.watch(spark)
        return spark
    except (NoSpark, NoJava) as error:
        raise RuntimeError(str(error)) from error


def sink_of(settings: PipelineSettings) -> Sink:
    """The pipeline's sink."""
    return make_sink(settings.sink, settings.source, settings.name)


def size(text: str) -> int:
    """A number of bytes, also as 64KiB, 128MiB or 1GiB."""
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    number, unit = (text[:-3], text[-3:]) if text[-3:] in units else (text, "")
    if not number.isascii() or not number.isdigit() or not int(number):
        raise argparse.ArgumentTypeError(f"{text} is no size: write 1048576, 64KiB, 128MiB or 1GiB")
    return int(number) * units.get(unit, 1)


def is_bug(error: Exception) -> bool:
    """Whether an error isn't one of operating: of settings, disks, brokers, Spark or a table."""
    operating = (OSError, RuntimeError, ValueError)
    return not isinstance(error, operating) and not type(error).__module__.startswith(_OTHERS)


def one_line(error: Exception) -> str:
    """An error as a user reads it."""
    is_ours = not type(error).__module__.startswith(_OTHERS)
    return str(error) if is_ours else error_line(error)


def report(
    options: argparse.Namespace,
    command: str,
    work: Callable[[PipelineSettings, SparkLog, WorkBar], Done],
) -> int:
    """Do the work of a command and show what was done; the exit code, 2 for a wrong file.

    Errors of operating are one line, and the end of Spark's log.
    """
    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    log = log_of(settings, command)
    try:
        with WorkBar(command, is_on=not options.json) as bar:
            done = work(settings, log, bar)
    except Exception as error:
        if is_bug(error):
            raise
        return fail_with(log, one_line(error))
    show([asdict(done)], COLUMNS, as_json=options.json)
    return 0
