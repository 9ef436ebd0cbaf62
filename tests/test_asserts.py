"""Invariants are asserted where code relies on them, in the rooms that keep data.

An assert says what is true whatever clients, other brokers and disks do: it teaches the reader,
and stops a broken broker before it writes. What can go wrong from outside is an error that is
answered. A room may not become quieter than this.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PER_THOUSAND_LINES = 5


@pytest.mark.parametrize("room", ["log", "broker", "coordinator", "metadata"])
def test_a_room_asserts_its_invariants(room: str) -> None:
    """At least five asserts in 1,000 lines."""
    lines = asserts = 0
    for path in (ROOT / "kwire" / room).rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        lines += len(source.splitlines())
        if "assert " in source:
            asserts += sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))
    assert asserts * 1000 >= PER_THOUSAND_LINES * lines, f"{asserts} asserts in {lines} lines"
