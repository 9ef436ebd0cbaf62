"""``kwire pipeline run``: run a pipeline until it is stopped, or has read what is there.

SIGTERM and Ctrl-C end it after the batch that runs; a second one ends it at once, which loses and
doubles nothing either. Exit codes: 0 after its end, 1 after a failure, with a line on stderr and
the end of Spark's log, 2 for a wrong file, 3 if data is lost and the pipeline is to stop then.
"""

import argparse
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from kwire.cli.output import fail, wrong
from kwire.spark.commands.reading import add_examples, add_file, fail_with, read_or_tell
from kwire.spark.settings import PipelineSettings

if TYPE_CHECKING:
    from kwire.spark.pipeline import Pipeline
    from kwire.spark.spark_log import SparkLog

DATA_LOST = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments: the file, and how much to show."""
    add_file(parser)
    parser.add_argument(
        "--once", action="store_true", help="read what is there, and end (trigger = once)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")
    add_examples(
        parser,
        "kwire pipeline run orders.toml",
        "kwire pipeline run orders.toml --once",
        "spark-submit $(kwire pipeline submit-args orders.toml --master spark://host:7077)",
    )


def run(options: argparse.Namespace) -> int:
    """Run a pipeline; returns the exit code."""
    from dataclasses import replace

    from kwire.spark.driver_lock import SecondDriver, check_no_other_driver
    from kwire.spark.nothing_new import is_nothing_new
    from kwire.spark.query import error_line
    from kwire.spark.settings import WrongSetting

    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    if options.once:
        settings = replace(settings, trigger="once")
    try:
        check_no_other_driver(settings)
        if not is_nothing_new(settings):
            return _run(settings, options)
    except SecondDriver as error:
        return fail(f"pipeline {settings.name} has failed: {error_line(error)}")
    except WrongSetting as error:
        return wrong(f"{options.file}: {error}")
    if not options.quiet:
        print(f"{settings.name}: nothing new to read, so Spark wasn't started", file=sys.stderr)
    return 0


def _run(settings: PipelineSettings, options: argparse.Namespace) -> int:
    """Start Spark and run the pipeline; the exit code. WrongSetting."""
    from kwire.spark.batch_work import check_transforms
    from kwire.spark.java_runtime import NoJava
    from kwire.spark.pipeline import Pipeline
    from kwire.spark.session import (
        STARTING,
        NoSpark,
        has_session,
        is_submitted,
        open_session,
        prepare_session,
    )
    from kwire.spark.spark_log import log_of

    check_transforms(settings.transforms)
    is_shared = has_session()
    log = log_of(settings, "run")
    try:
        prepare_session(settings)
        if not (is_shared or is_submitted() or options.quiet):
            print(f"kwire: {STARTING.format(log=log.path)}", file=sys.stderr, flush=True)
        spark = open_session(settings, log)
    except (NoSpark, NoJava) as error:
        return fail_with(log, str(error))
    try:
        check_transforms(settings.transforms, spark)
        return _outcome(Pipeline(settings, spark=spark), log, quiet=options.quiet)
    finally:
        if not is_shared:
            spark.stop()


def _outcome(pipeline: "Pipeline", log: "SparkLog", *, quiet: bool) -> int:
    """Run a pipeline, with a line about its failure and what Spark printed; the exit code."""
    from kwire.spark.lost_records import DataLost
    from kwire.spark.query import error_line

    name = pipeline.settings.name
    try:
        _run_to_the_end(pipeline, quiet=quiet)
    except DataLost as error:
        fail(f"pipeline {name}: {error}")
        return DATA_LOST
    except Exception as error:
        return fail_with(log, f"pipeline {name} has failed: {error_line(error)}")
    return 0


def _run_to_the_end(pipeline: "Pipeline", *, quiet: bool) -> None:
    """Run to the end with a bar and a summary, and stop cleanly at signals."""
    from kwire.spark.commands.bar import Bar

    def end(number: int, frame: FrameType | None) -> None:
        pipeline.stop()
        for one, handler in before.items():  # a second signal ends the process at once
            signal.signal(one, handler)

    before: dict[signal.Signals, Any] = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    for number in before:
        signal.signal(number, end)
    with Bar(pipeline.settings.name, is_on=not quiet) as bar:
        bar.finish(pipeline.run(bar.show))
