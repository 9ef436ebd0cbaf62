"""docs/SECURITY.md: the attacks that it says tests try are tried by tests of these names."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_attack_has_its_tests() -> None:
    """The names in the last column of the table are those of tests."""
    page = (ROOT / "docs" / "SECURITY.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("## Attacks that tests try\n")
    table = rest.partition("\n## ")[0]
    named = set(re.findall(r"`(test_\w+)`", table))
    assert len(named) > 20
    paths = [path for folder in ("tests", "compat_tests") for path in (ROOT / folder).rglob("*.py")]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    found = {name for text in sources for name in re.findall(r"def (test_\w+)", text)}
    assert named <= found, named - found
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert all("`test_" in row.rpartition("|")[0].rpartition("|")[2] for row in rows)
