"""Code and documents have one spelling."""

from itertools import product
from pathlib import Path

ROOT = Path(__file__).parent.parent

ROOTS = ("recogn", "organ", "optim", "serial", "synchron", "initial", "normal", "author")
BRITISH = {
    *("behaviour", "colour", "favour", "honour", "neighbour", "labelled", "labelling", "dialled"),
    *("catalogue", "centre", "analyse"),
    *map("".join, product((*ROOTS, "minim", "maxim"), ("ise", "ising", "isation"))),
}
"""Parts of words, looked for in any case: one after the other is faster than an expression."""


def test_one_spelling() -> None:
    """American, as Kafka's own names have it; but "cancelled", as in trio."""
    files = [*(ROOT / "kwire").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    found = {
        f"{file.relative_to(ROOT)}: {word}"
        for file in files
        for text in [file.read_text(encoding="utf-8").lower()]
        for word in BRITISH
        if word in text
    }
    assert not found
