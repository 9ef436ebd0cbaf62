"""How a command reports a failure."""

import sys


def fail(message: str) -> int:
    """Print one line that says what is wrong; returns the exit code 1."""
    print(f"kwire: {message}", file=sys.stderr)
    return 1
