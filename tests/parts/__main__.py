"""``python -m tests.parts``: what ``make test`` runs. Names of parts run only these."""

import sys

from rich.console import Console

from tests.parts.parts import PARTS, make_command, run_all, write_out


def main(names: list[str]) -> int:
    """Run the parts of these names, or all."""
    unknown = set(names) - {part.target for part in PARTS}
    if unknown:
        known = ", ".join(part.target for part in PARTS)
        print(f"no part is called {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    chosen = [part for part in PARTS if not names or part.target in names]
    return run_all(chosen, make_command, Console(), write_out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
