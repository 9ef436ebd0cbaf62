"""``python -m tests.parts``: what ``make test`` runs. Names of parts run only these."""

import shutil
import sys

from rich.console import Console

from tests.parts.parts import PARTS, make_command, run_all, write_out

NO_TERMINAL = (120, 24)
"""Columns and lines of a log or a pipe, which have no width of their own."""


def main(names: list[str]) -> int:
    """Run the parts of these names, or all."""
    unknown = set(names) - {part.target for part in PARTS}
    if unknown:
        known = ", ".join(part.target for part in PARTS)
        print(f"no part is called {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    chosen = [part for part in PARTS if not names or part.target in names]
    console = Console(width=shutil.get_terminal_size(NO_TERMINAL).columns)
    return run_all(chosen, make_command, console, write_out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
