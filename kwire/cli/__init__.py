"""The command line: ``kwire serve`` and the other commands, one module for each.

Rules:

- A command's module has ``add_parser(commands)`` and ``run(options)``. It is imported when its
  command is given, and imports its own needs in ``run``, so that no command loads another's code.
- Exit codes: 0 after success, 1 after a failure, with one line on stderr that names it, 2 for a
  wrong command line, 130 for Ctrl-C in a command that doesn't handle it.
- A reader that ends early, such as head, is no error. Output that finds no room is one.
- A standard stream that the caller has closed is as empty as /dev/null.
"""

import argparse
import errno
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import NoReturn

from kwire import __version__
from kwire.cli.output import drop_output, fail

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
    "secure": "kwire.cli.secure",
    "bench": "kwire.cli.bench",
    "completion": "kwire.cli.completion",
    "dump-log": "kwire.cli.dump_log",
    "mend-log": "kwire.cli.mend_log",
    "strays": "kwire.cli.strays",
    "leave-store": "kwire.cli.leave_store",
    "pipeline": "kwire.cli.pipeline",
}
"""The module of each command, in the order of the help text."""

NOT_ON_WINDOWS = (
    "this is Windows, where kwire does not run: its log needs POSIX file locks, and files that can "
    "be renamed and deleted while they are open. Run kwire in WSL (wsl --install) or in a Linux "
    "container; clients on Windows can connect to it there"
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED = 130
"""A shell's exit code for a command that ended with Ctrl-C."""


class Parser(argparse.ArgumentParser):
    """A parser that shows the commands or actions there are when the command line names none.

    The parsers of its commands and actions are of the same class.
    """

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line; exit with 2."""
        if not actions_of(self):
            super().error(message)
        self.print_help(sys.stderr)
        self.exit(2, f"\n{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    if sys.platform == "win32":
        return fail(NOT_ON_WINDOWS)
    _open_closed_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    named = [one for one in given[:1] if one in COMMANDS]
    only_version = given[:1] == ["--version"]
    parser, commands = make_parser(
        named if named or only_version else COMMANDS, with_actions=bool(named)
    )
    options, unknown = parser.parse_known_args(given)
    if unknown:
        given_parser = commands.choices[options.command]
        for action in actions_of(given_parser):
            given_parser = action.choices[getattr(options, action.dest)]
        _take_late(given_parser, options, unknown)
    try:
        exit_code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:  # a command that has to undo something handles signals itself
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()  # the reader, such as head, has ended
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in NO_ROOM:
            raise
        drop_output()
        return fail(f"cannot write the output: {error.strerror}; make room, or write it elsewhere")
    return exit_code


def _take_late(
    parser: argparse.ArgumentParser, options: argparse.Namespace, late: list[str]
) -> None:
    """Add names that are given after options, ``produce orders --format json FILE``, to their list.

    argparse ends a list at the first option. The rest is an error of the command's own parser,
    which shows its usage, with the options that exist.
    """
    lists = [one for one in parser._actions if not one.option_strings and one.nargs in ("*", "+")]
    if not lists or any(one.startswith("-") and one != "-" for one in late):
        parser.error(f"unrecognized arguments: {' '.join(late)}")
    values = list(getattr(options, lists[-1].dest) or ())
    try:
        values += [parser._get_value(lists[-1], one) for one in late]
    except argparse.ArgumentError as error:
        parser.error(str(error))
    setattr(options, lists[-1].dest, values)


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed; Python has None for them.

    Without this the first file that a command opens would get the number of such a stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def make_parser(
    names: Iterable[str], *, with_actions: bool = True
) -> "tuple[argparse.ArgumentParser, argparse._SubParsersAction[argparse.ArgumentParser]]":
    """The parser with some of the commands, and its commands.

    Without the actions of commands it is quick, and good for the help about all commands.
    """
    parser: argparse.ArgumentParser = Parser(
        prog="kwire", description="Kafka in Python: a broker for tests, laptops and pipelines."
    )
    parser.add_argument("--version", action="version", version=f"kwire {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = import_module(COMMANDS[name])
        add = None if with_actions else getattr(module, "add_summary", None)
        (add or module.add_parser)(commands)
    return parser, commands


def actions_of(
    parser: argparse.ArgumentParser,
) -> "list[argparse._SubParsersAction[argparse.ArgumentParser]]":
    """The actions of a command, such as list and create of topics: one group of them, or none."""
    return [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
