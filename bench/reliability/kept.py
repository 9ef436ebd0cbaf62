"""What has been measured so far, in one file: a run of one scenario replaces that scenario alone.

Format: JSON, by system and scenario: the figures as ``[what, seconds]``, and what was acknowledged,
lost, doubled and told to the application. So a long table can be measured in pieces.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.published import compact
from bench.reliability.checks import Outcome
from bench.reliability.scenarios import Seen

FILE = Path(__file__).parents[2] / "docs" / "performance" / "reliability.json"


@dataclass
class Kept:
    """Figures and outcomes by system and scenario, and the machine of the last run."""

    seen: dict[str, dict[str, list[Seen]]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    machine: str = ""

    def add(self, system: str, scenario: str, seen: list[Seen], outcome: Outcome | None) -> None:
        """Keep what one scenario has shown on one system, in place of what it had shown before.

        One that broke off has no outcome.
        """
        self.seen.setdefault(system, {})[scenario] = seen
        outcomes = self.outcomes.setdefault(system, {})
        if outcome is None:
            outcomes.pop(scenario, None)
        else:
            outcomes[scenario] = outcome

    def take(self, newer: "Kept") -> None:
        """Keep everything that another run has measured."""
        for system, scenarios in newer.seen.items():
            for scenario, seen in scenarios.items():
                self.add(system, scenario, seen, newer.outcomes[system].get(scenario))
        self.machine = newer.machine or self.machine

    def write(self, file: Path = FILE) -> None:
        """Write the file."""
        rows: dict[str, Any] = {"machine": self.machine}
        for system, scenarios in self.seen.items():
            rows[system] = {
                scenario: {
                    "seconds": [[one.what, round(one.seconds, 4)] for one in seen],
                    "outcome": list(self.outcomes[system].get(scenario, ())),
                }
                for scenario, seen in scenarios.items()
            }
        file.write_text(compact(rows) + "\n", encoding="utf-8")


def read(file: Path = FILE) -> Kept:
    """The file, empty if there is none."""
    kept = Kept()
    if not file.exists():
        return kept
    rows = json.loads(file.read_text(encoding="utf-8"))
    kept.machine = rows.pop("machine")
    for system, scenarios in rows.items():
        for scenario, row in scenarios.items():
            seen = [Seen(scenario, what, seconds) for what, seconds in row["seconds"]]
            kept.add(system, scenario, seen, Outcome(*row["outcome"]) if row["outcome"] else None)
    return kept
