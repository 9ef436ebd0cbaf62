"""Reports of commands about failures, and about wrong command lines."""

import os
import sys

from kwire.cli.tables import one_line


class CommandError(Exception):
    """A command can't be carried out; the text is the line to print."""


def fail(message: str) -> int:
    """Print one line that says what is wrong; returns the exit code 1.

    The message may quote a broker or a file, so control characters are escaped for the terminal.
    """
    print(f"kwire: {one_line(message)}", file=sys.stderr)
    return 1


def shown(address: tuple[str, int]) -> str:
    """An address as clients write it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def wrong(message: str) -> int:
    """Print one line that says what is wrong with the command line; returns the exit code 2."""
    fail(message)
    return 2


def drop_output() -> None:
    """Drop the unwritten output: Python would try to flush it again at its own end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
