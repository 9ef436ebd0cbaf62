"""``kwire pipeline submit-args``: print what spark-submit needs to run a pipeline on a cluster.

Every user of a machine can see the arguments of the programs that run there. So this command leaves
out the settings of ``[spark]`` that hold passwords or keys. The driver reads all settings of
``[spark]`` from the pipeline's file, and so these too.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path

from kwire.cli.output import fail
from kwire.spark.commands.reading import add_examples, add_file, read_or_tell
from kwire.spark.masking import masked

ENTRY = Path(__file__).parents[1] / "__main__.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the master, and how executors get kwire."""
    add_file(parser)
    parser.add_argument("--master", metavar="URL", help="the cluster, such as spark://host:7077")
    parser.add_argument(
        "--py-files",
        metavar="ZIP",
        help="write kwire's modules into this file, and name it: for --deploy-mode cluster, and "
        "drivers without kwire (a driver that has kwire sends it to the executors by itself)",
    )
    add_examples(
        parser,
        "spark-submit $(kwire pipeline submit-args orders.toml --master spark://host:7077)",
        "kwire pipeline submit-args orders.toml --py-files kwire.zip",
    )


def run(options: argparse.Namespace) -> int:
    """Print the arguments, as a shell reads them; returns the exit code."""
    from kwire.spark.session import JARS, NoSpark, jars, of_formats, write_package

    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    arguments: list[str] = []
    if master := options.master or settings.spark.get("spark.master"):
        arguments += ["--master", master]
    wanted = {name: value for name, value in settings.spark.items() if name != "spark.master"}
    try:
        if not any(name in wanted for name in JARS):
            wanted |= jars(_version(), of_formats(settings))
    except NoSpark as error:
        return fail(str(error))
    secret = {name for name, value in wanted.items() if masked(name, value) != value}
    for name, value in sorted(wanted.items()):
        if name not in secret:
            arguments += ["--conf", f"{name}={value}"]
    if options.py_files:
        arguments += ["--py-files", str(write_package(Path(options.py_files).absolute()))]
    arguments += [str(ENTRY), "run", os.path.abspath(options.file)]
    print(shlex.join(arguments))
    if secret:
        print(
            f"kwire: these settings are secret and left out; the driver reads them from"
            f" {options.file}: {', '.join(sorted(secret))}. If spark-submit itself needs them,"
            " write them into a file and add --properties-file FILE",
            file=sys.stderr,
        )
    return 0


def _version() -> str:
    """The version of the PySpark that is installed here; else the one that is recommended."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "4.0.0"
