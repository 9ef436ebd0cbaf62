"""``kwire pipeline compact``: small files of a table become files of about a target size."""

import argparse

from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.settings import PipelineSettings
from kwire.spark.spark_log import SparkLog
from kwire.spark.upkeep import Done, upkeep_of
from kwire.spark.upkeep.commands import add_common, report, session_of, size

EXAMPLES = """examples:
  kwire pipeline compact orders.toml
  kwire pipeline compact orders.toml --target-size 512MiB --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Bring the small files of a pipeline's table to about a size. The pipeline may be running."
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common(parser)
    parser.add_argument(
        "--target-size",
        metavar="SIZE",
        type=size,
        default=128 * 2**20,
        help="the size of a file, as 64KiB, 128MiB or 1GiB (default: 128MiB)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit code."""

    def work(settings: PipelineSettings, log: SparkLog, bar: WorkBar) -> Done:
        upkeep = upkeep_of(settings.sink)
        spark = session_of(settings, log, bar) if upkeep.needs_spark else None
        return upkeep.compact(spark, options.target_size, bar.show)

    return report(options, "compact", work)
