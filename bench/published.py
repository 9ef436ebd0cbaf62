"""The numbers that were published last, in one compact file.

Format: JSON with a ``run`` and a ``growth`` (see ``bench.report``) and the waits beside hostile
clients (see ``bench.hostile``), with one line for each row and each curve. Numbers have seven
digits, which is more than a table shows and more than is repeatable. Other published numbers have
files of their own in the same form (``compact``).
"""

import json
from pathlib import Path
from typing import Any

from bench.report import Growth, Run

NUMBERS = Path(__file__).parent.parent / "docs" / "performance" / "numbers.json"
DIGITS = 7
LINES_TO_DEPTH = 3


def read_run(file: Path = NUMBERS) -> Run | None:
    """The published run, None if there is none."""
    run: Run | None = _read(file).get("run")
    return run


def read_growth(file: Path = NUMBERS) -> Growth:
    """The published curves, empty if there are none."""
    growth: Growth = _read(file).get("growth", {})
    return growth


def read_hostile(file: Path = NUMBERS) -> dict[str, Any]:
    """The published waits beside hostile clients, empty if there are none."""
    found: dict[str, Any] = _read(file).get("hostile", {}).get("attacks", {})
    return found


def write_hostile(results: dict[str, Any], file: Path = NUMBERS) -> None:
    """Publish waits beside hostile clients; the other numbers stay."""
    _write(file, {**_read(file), "hostile": {"attacks": results}})


def write_run(run: Run, file: Path = NUMBERS) -> None:
    """Publish a run; the published curves stay."""
    _write(file, {**_read(file), "run": run})


def write_growth(growth: Growth, file: Path = NUMBERS) -> None:
    """Publish curves; the published run stays."""
    _write(file, {**_read(file), "growth": growth})


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _write(file: Path, numbers: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(compact(_rounded(numbers)) + "\n", encoding="utf-8")


def compact(value: Any, depth: int = 0) -> str:
    """JSON with one line for each entry of the upper levels, and no blanks below them."""
    if isinstance(value, dict) and depth < LINES_TO_DEPTH and value:
        entries = [
            f"{json.dumps(name, ensure_ascii=False)}:{compact(inner, depth + 1)}"
            for name, inner in value.items()
        ]
        return "{\n" + ",\n".join(entries) + "\n}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    """The same value with numbers rounded to ``DIGITS`` digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
