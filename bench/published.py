"""The numbers that were published last, in one compact file: the bench's run and how cost grows.

Format: JSON with a ``run`` and a ``growth`` (see ``bench.report``), a line for each row, curve and
the like, numbers with seven digits: more than any table shows, and more than any run repeats.
"""

import json
from pathlib import Path
from typing import Any

from bench.report import Growth, Run

NUMBERS = Path(__file__).parent.parent / "docs" / "performance" / "numbers.json"
DIGITS = 7
LINES_TO_DEPTH = 3


def read_run(file: Path = NUMBERS) -> Run | None:
    """The published run, if there is one."""
    run: Run | None = _read(file).get("run")
    return run


def read_growth(file: Path = NUMBERS) -> Growth:
    """The published curves, empty without any."""
    growth: Growth = _read(file).get("growth", {})
    return growth


def write_run(run: Run, file: Path = NUMBERS) -> None:
    """Publish a run; the curves stay."""
    _write(file, {**_read(file), "run": run})


def write_growth(growth: Growth, file: Path = NUMBERS) -> None:
    """Publish curves; the run stays."""
    _write(file, {**_read(file), "growth": growth})


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _write(file: Path, numbers: dict[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(compact(numbers) + "\n", encoding="utf-8")


def compact(value: Any, depth: int = 0) -> str:
    """JSON with a line for each entry of the upper levels, and the rest of it without a blank."""
    if isinstance(value, dict) and depth < LINES_TO_DEPTH and value:
        entries = [
            f"{json.dumps(name, ensure_ascii=False)}:{compact(inner, depth + 1)}"
            for name, inner in value.items()
        ]
        return "{\n" + ",\n".join(entries) + "\n}"
    return json.dumps(_rounded(value), ensure_ascii=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    """The same with fewer digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value
