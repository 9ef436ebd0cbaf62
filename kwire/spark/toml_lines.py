"""Finds the line of a key in a TOML file, which ``tomllib`` doesn't tell.

The text is known to be valid TOML. A key is found by its table and its name, including common forms
of dotted keys and inline tables. A key that isn't found gets the line of its table.
"""

import re
from collections.abc import Iterator, Sequence

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[\w"'.-]+)*)\s*=""")


def line_of(text: str, path: Sequence[str]) -> int:
    """The line, from 1, of a key such as ("source", "topics") or ("transform", "1", "sql").

    A number in the path is an element of an array of tables.
    """
    best, best_length = 1, 0
    wanted = tuple(path)
    for number, found in _places(text):
        length = len(found)
        if found == wanted:
            return number
        if length > best_length and found == wanted[:length]:
            best, best_length = number, length
    return best


def _places(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every line that begins a table or a key, and the path that it begins."""
    table: tuple[str, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not quotes:
            if header := _HEADER.match(line):
                table = _parts(header[2])
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, str(counts[table]))
                yield number, table
            elif key := _KEY.match(line):
                yield number, (*table, *_parts(key[1]))
        quotes = _open_quotes(line, quotes)


def _parts(dotted: str) -> tuple[str, ...]:
    found = re.findall(r"\"[^\"]*\"|'[^']*'|[A-Za-z0-9_-]+", dotted)
    return tuple(one.strip("\"'") for one in found)


def _open_quotes(line: str, quotes: str) -> str:
    """The quotation marks of a multi-line text that is still open after a line."""
    for mark in re.findall(r"\"\"\"|'''", line):
        if not quotes:
            quotes = mark
        elif mark == quotes:
            quotes = ""
    return quotes
