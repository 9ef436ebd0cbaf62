"""Tables for people, JSON for programs.

Rules:

- At a terminal a table is drawn by rich, if it is installed. In a pipe, and without rich, columns
  are aligned with blanks, without colors. With NO_COLOR nothing is bold at a terminal either.
- JSON is one document with all fields, also those that a table leaves out.
- Text from a broker, such as a client's id, is printed on one line without control characters.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_GAP = "  "


def show(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str] | Iterable[str],
    *,
    as_json: bool,
    nothing: str = "",
) -> None:
    """Print rows: the columns by key and title, or everything as JSON.

    A column without a title has its key as the title, in capitals.
    ``nothing`` is printed on stderr if there are no rows.
    """
    if as_json:
        show_json(list(rows))
        return
    if not rows:
        if nothing:
            print(nothing, file=sys.stderr)
        return
    titles = columns if isinstance(columns, Mapping) else {key: key.upper() for key in columns}
    numeric = {
        key
        for key in titles
        if {type(row.get(key)) for row in rows} - {type(None)} in ({int}, {float}, {int, float})
    }
    cells = [[_cell(row.get(key)) for key in titles] for row in rows]
    is_right = [key in numeric for key in titles]
    if sys.stdout.isatty() and _draw(cells, list(titles.values()), is_right):
        return
    for line in _aligned([list(titles.values()), *cells], is_right):
        print(line)


def show_json(value: object) -> None:
    """Print one JSON document."""
    import json

    print(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))


def printable_json(text: str) -> str:
    """JSON with escapes for control characters in its strings; line feeds stay."""
    import json

    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text
    )


def show_fields(fields: Mapping[str, Any]) -> None:
    """Print names and values, one a line, the values aligned."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print(f"{name + ':':<{width + 1}} {_cell(value)}")


def one_line(text: str) -> str:
    """A text without control characters, which could change what a terminal shows."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return one_line(",".join(map(str, value))) or "-"
    return one_line(str(value))


def _aligned(lines: Sequence[Sequence[str]], is_right: Sequence[bool]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        _GAP.join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right, strict=True)
        ).rstrip()
        for line in lines
    ]


def _draw(cells: Sequence[Sequence[str]], titles: Sequence[str], is_right: Sequence[bool]) -> bool:
    """Draw a table with rich; False without rich."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    style = "" if os.environ.get("NO_COLOR") else "bold"
    table = Table(box=None, pad_edge=False, header_style=style)
    for title, right in zip(titles, is_right, strict=True):
        table.add_column(title, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True
