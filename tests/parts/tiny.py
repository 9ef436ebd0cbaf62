"""Parts that take no time, for the tests of `make test`."""

import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.parts.parts import Measured, Part
from tests.parts.report import REPORT
from tests.parts.run import RESULTS, run_all

ONE, TWO, THREE = (Part(name, "tests") for name in ("one", "two", "three"))
MEASURED: Measured = {
    "seconds": 600,
    "cores": 2,
    "parts": {
        "one": {"seconds": 30, "processor_s": 20},
        "two": {"seconds": 20, "processor_s": 20},
        "three": {"seconds": 10, "processor_s": 5},
    },
}
NOTE = f"""
import json, os, sys
def note(test, outcome="passed", seconds=0.0):
    with open(os.environ["{REPORT}"], "a") as file:
        file.write(json.dumps(dict(test=test, outcome=outcome, seconds=seconds)) + "\\n")
"""
"""What the commands of these tests begin with: a part without pytest that notes its tests."""


def script(text: str) -> list[str]:
    """A command that runs some Python."""
    return [sys.executable, "-c", NOTE + text]


def run_tiny(
    logs: Path, parts: Sequence[Part], commands: dict[str, list[str]], cores: int = 1
) -> tuple[int, str]:
    """Run parts of these commands: the status, and all that was printed."""
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    command = lambda part: commands[part.target]  # noqa: E731
    status = run_all(parts, command, console, MEASURED, cores=cores, logs=logs)
    return status, printed.getvalue()


def row(printed: str, name: str) -> str:
    """The row of the last table that begins with this name."""
    return re.findall(rf"^│ {name} .*$", printed, re.MULTILINE)[-1]


def processor_s(logs: Path) -> int:
    """The seconds of processors that the part ``one`` of a run has used."""
    found: int = json.loads((logs / RESULTS).read_text())["parts"]["one"]["processor_s"]
    return found
