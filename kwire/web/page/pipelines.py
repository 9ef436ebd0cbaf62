"""The note that a pipeline of ``kwire.spark`` leaves with its group's offsets, for the page.

A pipeline commits the offsets of finished batches to a group without members, and the metadata of
the first one is a JSON object (``kwire.spark.progress.Status.note``). Any client may commit such a
text, so each value is checked, and what isn't of its type is left out.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeGuard, cast

from kwire.web.page import formats

_BEGIN = '{"kwire.pipeline":'
_MOST_REASONS = 10


class Pipeline(NamedTuple):
    """What a note says: names and values to be shown, and the dead letters by reason."""

    name: str
    figures: list[tuple[str, str]]
    reasons: list[tuple[str, str]]
    last_error: str
    last_error_at_ms: int


def pipeline_of(metadata: Iterable[str]) -> Pipeline | None:
    """The first note among the metadata of offsets; None if there is none."""
    for text in metadata:
        if text.startswith(_BEGIN):
            try:
                note = json.loads(text)
            except (ValueError, RecursionError):
                continue
            return _read(note)
    return None


def _read(note: dict[str, Any]) -> Pipeline:
    numbers = {
        "Records a second": note.get("rate"),
        "Records of the run": note.get("records"),
        "Dead letters of the run": note.get("dead_letters"),
        "Lost offsets": note.get("lost_offsets"),
        "Files written": note.get("files_written"),
        "Files of the table": note.get("files"),
        "Small files": note.get("small_files"),
    }
    figures = [("State", _text(note.get("state")))] + [
        (name, formats.number(round(value))) for name, value in numbers.items() if _is_number(value)
    ]
    given = note.get("reasons")
    reasons = [
        (_text(reason), formats.number(round(count)))
        for reason, count in (given if isinstance(given, dict) else {}).items()
        if _is_number(count)
    ]
    at_ms = note.get("last_error_at_ms")
    return Pipeline(
        _text(note.get("kwire.pipeline")),
        figures,
        reasons[:_MOST_REASONS],
        _text(note.get("last_error")),
        at_ms if isinstance(at_ms, int) and 0 < at_ms < 1 << 45 else 0,
    )


def _is_number(value: object) -> TypeGuard[float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= cast(float, value) < 1 << 62


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
