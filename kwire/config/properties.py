"""Java's ``.properties`` syntax, in which Kafka's ``server.properties`` is written.

Rules (java.util.Properties.load):

- A line is ``key = value``, ``key: value`` or ``key value``. ``#`` or ``!`` begins a comment line.
- A backslash at the end of a line joins it with the next line, without that line's leading blanks.
- ``\\t \\n \\r \\f \\uXXXX`` are escapes. A backslash before any other character is dropped.
- If a key has several values, the last one counts.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"(?:\\.|[^\\ \t\f=:])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a ``.properties`` file."""
    return {key: value for key, (value, _) in located_properties(text).items()}


def located_properties(text: str) -> dict[str, tuple[str, int]]:
    """The keys and values of a ``.properties`` file, and the numbers of the lines they end on."""
    properties = {}
    for number, line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches the empty string too
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescape(key[0])] = (_unescape(line[separator.end() :]), number)
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its continuations joined, and the number of its last line.

    Comments and blank lines are left out.
    """
    pending = ""
    number = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
        else:
            yield number, pending + line
            pending = ""
    if pending:
        yield number, pending


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
