"""The command line: ``kwire serve`` and the other commands, one module for each.

Rules:

- A command's module has ``add_parser(commands)`` and ``run(options)``. It is imported when its
  command is given, and imports its own needs in ``run``, so that no command loads another's code.
- Exit codes: 0 after success, 1 after a failure, with one line on stderr that names it, 2 for a
  wrong command line, 130 for Ctrl-C in a command that doesn't handle it.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from kwire.build import version_text
from kwire.cli.output import fail

COMMANDS = {
    "serve": "kwire.cli.serve",
    "dump-log": "kwire.cli.dump_log",
    "groups": "kwire.cli.groups",
    "mend-log": "kwire.cli.mend_log",
    "strays": "kwire.cli.strays",
}
"""The module of each command."""

NOT_ON_WINDOWS = (
    "this is Windows, where kwire does not run: its log needs POSIX file locks, and files that can "
    "be renamed and deleted while they are open. Run kwire in WSL (wsl --install) or in a Linux "
    "container; clients on Windows can connect to it there"
)
INTERRUPTED = 130
"""A shell's exit code for a command that ended with Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if sys.platform == "win32":
        return fail(NOT_ON_WINDOWS)
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="kwire", description="Kafka in Python: a broker for tests, laptops and pipelines."
    )
    parser.add_argument("--version", action="version", version=f"kwire {version_text()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in given[:1] if given and given[0] in COMMANDS else COMMANDS:
        import_module(COMMANDS[command]).add_parser(commands)
    options, unknown = parser.parse_known_args(given)
    if unknown:  # the command's own error shows its usage, with the options that exist
        commands.choices[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        exit_code: int = options.run(options)
    except KeyboardInterrupt:  # a command that has to undo something handles signals itself
        return INTERRUPTED
    return exit_code
