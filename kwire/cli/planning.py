"""What a command is about to change: shown first, checked only with ``--dry-run``, or asked about.

Rules:

- The plan goes to stderr, what was done to stdout: a script gets only the latter.
- Whoever takes something away at a terminal is asked, unless ``--yes`` is given. A script isn't.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

from kwire.cli.output import fail
from kwire.cli.tables import one_line, show_json


class Step(NamedTuple):
    """One change: the thing that it changes, and what happens to it, beginning with a verb."""

    name: str
    text: str


def add_plan_options(parser: argparse.ArgumentParser, *, asks: bool = False) -> None:
    """``--dry-run``, and ``--yes`` for a command that asks first."""
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    if asks:
        parser.add_argument("-y", "--yes", action="store_true", help="don't ask")


def begins(options: argparse.Namespace, steps: Sequence[Step]) -> bool:
    """Show the plan; whether it is to be carried out. If not, ``unchanged`` gives the exit code."""
    if options.dry_run:
        return False
    is_asked = hasattr(options, "yes") and not options.yes and sys.stdin.isatty() and steps
    if is_asked or not options.json:
        for step in steps:
            print(f"plan: {one_line(step.text)}", file=sys.stderr)
    if not is_asked:
        return True
    print("go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def unchanged(options: argparse.Namespace, steps: Sequence[Step]) -> int:
    """Say what would have changed; returns the exit code."""
    if not options.dry_run:
        return fail("nothing was changed")
    if options.json:
        show_json([{"name": step.name, "ok": True, "text": f"would {step.text}"} for step in steps])
    else:
        for step in steps:
            print(f"would {one_line(step.text)}")
    return 0
