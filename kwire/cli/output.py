"""How a command reports a failure, or a command line that can't be carried out."""

import sys

from kwire.cli.tables import one_line


def fail(message: str) -> int:
    """Print one line that says what is wrong; returns the exit code 1.

    The message may quote a broker or a file: a terminal must not obey what it contains.
    """
    print(f"kwire: {one_line(message)}", file=sys.stderr)
    return 1


def wrong(message: str) -> int:
    """Print one line that says what is wrong with the command line; returns the exit code 2."""
    fail(message)
    return 2
