"""The snippets of docs/TESTING.md, by the name in the comment before each."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTING = ROOT / "docs" / "TESTING.md"


def recipes(kind: str = "recipe") -> dict[str, str]:
    """The snippets of one kind: ``recipe``, ``recipe-of-spark``, ``recipe-of-java``."""
    text = TESTING.read_text(encoding="utf-8")
    found = re.findall(rf"<!-- {kind}: (\w+) -->\n+```\w+\n(.*?)```", text, re.DOTALL)
    return dict(found)
