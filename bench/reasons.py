"""The reasons why kwire misses bars, written by people in ``docs/performance/reasons.toml``.

Each table in that file has ``rows``, the start of the names of the rows that it explains, and
``text``, which says what limits them. The documents print a reason, with links to the rows'
profiles, while one of its rows misses its bar. The file keeps the reason after that.
"""

import tomllib
from pathlib import Path
from typing import NamedTuple

REASONS = Path(__file__).parent.parent / "docs" / "performance" / "reasons.toml"


class Reason(NamedTuple):
    """What limits the rows whose names start with ``rows``."""

    rows: str
    text: str

    def explains(self, name: str) -> bool:
        """Whether it explains a row: one of that name, or of that name and a colon and more."""
        return name == self.rows or name.startswith(f"{self.rows}: ")


def reasons(file: Path = REASONS) -> list[Reason]:
    """All reasons, the more specific ones first."""
    found = [Reason(**one) for one in tomllib.loads(file.read_text(encoding="utf-8"))["reason"]]
    return sorted(found, key=lambda reason: -len(reason.rows))
