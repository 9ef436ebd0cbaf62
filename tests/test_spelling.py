"""Code and documents have one spelling."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent

BRITISH = re.compile(
    r"behaviour|colour|favour|honour|neighbour|labell(?:ed|ing)|dialled|catalogue|centre\b"
    r"|(?:recogn|organ|optim|serial|synchron|initial|normal|author|minim|maxim)is(?:e|ing|ation)"
    r"|\banalyse",
    re.IGNORECASE,
)


def test_one_spelling() -> None:
    """American, as Kafka's own names have it; but "cancelled", as in trio."""
    files = [*(ROOT / "kwire").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    found = {
        f"{file.relative_to(ROOT)}: {word}"
        for file in files
        for word in BRITISH.findall(file.read_text(encoding="utf-8"))
    }
    assert not found
