"""The command line: ``kwire serve`` and the other commands, one module for each.

Rules:

- A command's module has ``add_parser(commands)`` and ``run(options)``, and imports what it needs
  when it runs, so that no command pays for another.
- Exit codes: 0 when done, 1 when something is wrong, with one line on stderr that says what, 2 for
  a wrong command line.
"""

import argparse
from collections.abc import Sequence

from kwire.build import version_text
from kwire.cli import dump_log, groups, serve

COMMANDS = (serve, dump_log, groups)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(
        prog="kwire", description="Kafka in Python: a broker for tests, laptops and pipelines."
    )
    parser.add_argument("--version", action="version", version=f"kwire {version_text()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    exit_code: int = options.run(options)
    return exit_code
