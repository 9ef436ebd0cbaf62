"""What commands say when something is wrong."""

import sys


def fail(message: str) -> int:
    """Say what is wrong, in one line; the exit code for it."""
    print(f"kwire: {message}", file=sys.stderr)
    return 1
