"""``kwire pipeline``: pipelines on Spark, from topics into tables and back.

The actions are modules of ``kwire.spark``; no other command uses that package. Each has
``add_arguments(parser)``, whose docstring's first line is the help text, and ``run(options)``. They
import Spark when they need it.
"""

import argparse
from importlib import import_module

ACTIONS = {
    "init": "kwire.spark.commands.init",
    "check": "kwire.spark.commands.check",
    "run": "kwire.spark.commands.run",
    "status": "kwire.spark.commands.status",
    "schema": "kwire.spark.commands.schema",
    "submit-args": "kwire.spark.commands.submit_args",
    "verify": "kwire.spark.verify",
    "replay": "kwire.spark.replay",
    "compact": "kwire.spark.compact",
    "expire": "kwire.spark.expire",
}
"""The module of each action, in the order of the help text."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    pipeline = commands.add_parser(
        "pipeline",
        description="Reads topics, decodes their records, and writes them into files, tables or "
        "topics, each record exactly once. A pipeline is a TOML file; `kwire pipeline init` writes "
        "one to begin with.",
    )
    actions = pipeline.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, module_name in ACTIONS.items():
        module = import_module(module_name)
        text = " ".join((module.__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
        help_text = text.partition(": ")[2] or text
        parser = actions.add_parser(
            name,
            help=help_text[:1].lower() + help_text[1:],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)
