"""The parser of the command line, with all commands or with the one that is given."""

import argparse
from collections.abc import Iterable
from importlib import import_module

from kwire.build import version_text

COMMANDS = {
    "serve": "kwire.cli.serve",
    "topics": "kwire.cli.topics",
    "produce": "kwire.cli.produce",
    "consume": "kwire.cli.consume",
    "groups": "kwire.cli.groups",
    "configs": "kwire.cli.configs",
    "records": "kwire.cli.records",
    "transactions": "kwire.cli.transactions",
    "cluster": "kwire.cli.cluster",
    "health": "kwire.cli.health",
    "doctor": "kwire.cli.doctor",
    "bench": "kwire.cli.bench",
    "completion": "kwire.cli.completion",
    "dump-log": "kwire.cli.dump_log",
    "mend-log": "kwire.cli.mend_log",
    "strays": "kwire.cli.strays",
}
"""The module of each command, in the order of the help text."""


def make_parser(
    names: Iterable[str],
) -> "tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]":
    """The parser with some of the commands, and its commands."""
    parser = argparse.ArgumentParser(
        prog="kwire", description="Kafka in Python: a broker for tests, laptops and pipelines."
    )
    parser.add_argument("--version", action="version", version=f"kwire {version_text()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        import_module(COMMANDS[name]).add_parser(commands)
    return parser, commands
