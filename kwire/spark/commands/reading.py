"""How the actions of ``kwire pipeline`` read a pipeline's file, and tell what is wrong with it."""

import argparse

from kwire.cli.output import wrong
from kwire.spark.pipeline_file import WrongPipeline, read_pipeline
from kwire.spark.settings import PipelineSettings


def add_file(parser: argparse.ArgumentParser) -> None:
    """The argument FILE."""
    parser.add_argument("file", metavar="FILE", help="the pipeline's TOML file")


def add_examples(parser: argparse.ArgumentParser, *examples: str) -> None:
    """Examples at the end of the help text."""
    parser.epilog = "\n".join(["examples:", *(f"  {one}" for one in examples)])


def read_or_tell(path: str) -> PipelineSettings | None:
    """The pipeline, or None after a line on stderr for each mistake: then the exit code is 2."""
    try:
        return read_pipeline(path)
    except WrongPipeline as error:
        for line in error.lines:
            wrong(line)
        return None
