"""The command line: ``kwire serve`` and the other commands, one module for each.

Rules:

- A command's module has ``add_parser(commands)`` and ``run(options)``. It is imported when its
  command is given, and imports what it needs when it runs: no command pays for another.
- Exit codes: 0 when done, 1 when something is wrong, with one line on stderr that says what, 2 for
  a wrong command line, 130 for Ctrl-C where the command has no clean end for it.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from kwire.build import version_text

COMMANDS = {
    "serve": "kwire.cli.serve",
    "dump-log": "kwire.cli.dump_log",
    "groups": "kwire.cli.groups",
    "mend-log": "kwire.cli.mend_log",
    "strays": "kwire.cli.strays",
}
"""The module of each command."""

INTERRUPTED = 130
"""The exit code of shells for a command that ended with Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="kwire", description="Kafka in Python: a broker for tests, laptops and pipelines."
    )
    parser.add_argument("--version", action="version", version=f"kwire {version_text()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in given[:1] if given and given[0] in COMMANDS else COMMANDS:
        import_module(COMMANDS[command]).add_parser(commands)
    options, unknown = parser.parse_known_args(given)
    if unknown:  # said with the usage of the command, which has the options that there are
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        exit_code: int = options.run(options)
    except KeyboardInterrupt:  # where a command has something to undo it takes care of signals
        return INTERRUPTED
    return exit_code
