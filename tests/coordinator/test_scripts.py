"""Every state of a classic group and every way out of it, as text scripts with recorded traces.

A file in ``scripts/`` begins with what it shows; a line ``settings NAME=VALUE…`` sets the
coordinator's settings. ``RECORD=yes`` writes the traces anew: read the difference before it is
kept.
"""

import os
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


def _commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and line[0] not in " #"]


def _played(text: str, new_script) -> str:
    """The script with the trace that it leaves."""
    settings = {
        name: int(value)
        for line in _commands(text)
        if line.startswith("settings ")
        for name, value in (word.split("=") for word in line.split()[1:])
    }
    script = new_script(**settings)
    lines = []
    for line in text.splitlines():
        if line.startswith(" "):
            continue
        lines.append(line)
        if line and line[0] != "#" and not line.startswith("settings "):
            lines += [f"    {seen}" for seen in script.command(line)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_trace_is_as_it_was_recorded(path, new_script):
    """The same commands lead to the same answers, records and reasons."""
    text = path.read_text(encoding="utf-8")
    played = _played(text, new_script)
    if os.environ.get("RECORD") == "yes":
        path.write_text(played, encoding="utf-8")
    else:
        assert played == text


def test_every_state_is_restarted_somewhere():
    """A script restarts the coordinator in each state that a group can be in."""
    text = (Path(__file__).parent / "scripts" / "restart.txt").read_text(encoding="utf-8")
    for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable"):
        assert f"{state} generation" in text
