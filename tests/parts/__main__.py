"""``python -m tests.parts``: what ``make test`` runs. Names of parts run only these.

``--measured`` runs nothing: it makes the times of the last run the usual ones. ``--page`` renews
the table of parts in the documentation, and so does ``--measured``.
"""

import argparse
import os
import shutil
import sys

from rich.console import Console

from tests.parts.parts import PARTS, ROOT, read_measured
from tests.parts.run import RESULTS, make_command, run_all
from tests.parts.running import adopt_orphans
from tests.parts.tables import write_measured, write_page

LOGS = ROOT / "build" / "test-logs"
NO_TERMINAL = (120, 24)
"""Columns and lines of a log or a pipe, which have no width of their own."""


def main(arguments: list[str]) -> int:
    """Run the parts of these names, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    parser.add_argument("parts", nargs="*", help="names of parts; none: all")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args(arguments)
    if options.measured:
        print(f"measured: {write_measured(LOGS / RESULTS)}")
    if options.measured or options.page:
        write_page()
        return 0
    if unknown := set(options.parts) - {part.target for part in PARTS}:
        known = ", ".join(part.target for part in PARTS)
        print(f"no part is called {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    chosen = [part for part in PARTS if not options.parts or part.target in options.parts]
    console = Console(width=shutil.get_terminal_size(NO_TERMINAL).columns)
    adopt_orphans()
    return run_all(chosen, make_command, console, read_measured(), cores=options.cores, logs=LOGS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
