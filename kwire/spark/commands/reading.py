"""Reads a pipeline's file for the actions of ``kwire pipeline``, and reports its mistakes."""

import argparse
import stat
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.output import fail, wrong
from kwire.cli.tables import one_line
from kwire.spark.masking import masked
from kwire.spark.pipeline_file import WrongPipeline, read_pipeline
from kwire.spark.settings import PipelineSettings

if TYPE_CHECKING:
    from kwire.spark.spark_log import SparkLog


def add_file(parser: argparse.ArgumentParser) -> None:
    """The argument FILE."""
    parser.add_argument("file", metavar="FILE", help="the pipeline's TOML file")


def fail_with(log: "SparkLog", message: str) -> int:
    """Print what is wrong, and the end of Spark's log without secrets; returns the exit code 1."""
    fail(message)
    for line in log.lines_of_failure():
        print(one_line(str(masked("", line))), file=sys.stderr)
    return 1


def add_examples(parser: argparse.ArgumentParser, *examples: str) -> None:
    """Examples at the end of the help text."""
    parser.epilog = "\n".join(["examples:", *(f"  {one}" for one in examples)])


def read_or_tell(path: str) -> PipelineSettings | None:
    """The pipeline, or None after a line on stderr for each mistake: then the exit code is 2."""
    try:
        found = read_pipeline(path)
    except WrongPipeline as error:
        for line in error.lines:
            wrong(line)
        return None
    if Path(path).stat().st_mode & stat.S_IROTH and _has_secret("", tomllib.loads(_text(path))):
        told = (
            f"everybody on this machine may read {path}, which holds a secret: chmod o-rwx {path}"
        )
        print(f"kwire: {told}", file=sys.stderr)
    return found


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _has_secret(key: str, value: object) -> bool:
    """Whether a value contains a secret, which a reference to a provider doesn't."""
    if isinstance(value, Mapping):
        return any(_has_secret(name, one) for name, one in value.items())
    return masked(key, value) != value and "${" not in str(value)
