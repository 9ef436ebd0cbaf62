"""Why kwire misses a bar: sentences that people keep, in ``docs/performance/reasons.toml``.

Each table there has ``rows``, the beginning of the names of the rows it explains, and ``text``,
what limits them; the rows' profiles are linked beside. A reason is printed as long as one of its
rows misses its bar; what is kept here outlives that.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

REASONS = Path(__file__).parent.parent / "docs" / "performance" / "reasons.toml"


class Reason(NamedTuple):
    """What limits the rows whose names begin with ``rows``."""

    rows: str
    text: str

    def explains(self, name: str) -> bool:
        """Whether a row is one of them: it has that name, or one that goes on with a colon."""
        return name == self.rows or name.startswith(f"{self.rows}: ")


def reasons(file: Path = REASONS) -> list[Reason]:
    """All of them, the more particular ones first."""
    found = [Reason(**one) for one in tomllib.loads(file.read_text(encoding="utf-8"))["reason"]]
    return sorted(found, key=lambda reason: -len(reason.rows))
