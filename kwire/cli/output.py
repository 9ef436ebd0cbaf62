"""How a command reports a failure."""

import sys

from kwire.cli.tables import one_line


def fail(message: str) -> int:
    """Print one line that says what is wrong; returns the exit code 1.

    The message may quote a broker or a file: a terminal must not obey what it contains.
    """
    print(f"kwire: {one_line(message)}", file=sys.stderr)
    return 1
