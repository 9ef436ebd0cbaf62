"""Java's ``.properties`` syntax, in which Kafka's ``server.properties`` is written.

Rules (java.util.Properties.load): a line is ``key = value``, ``key: value`` or ``key value``;
``#`` or ``!`` starts a comment line; a backslash at the end continues a line, whose leading
blanks are dropped; ``\\t \\n \\r \\f \\uXXXX`` are escapes, and a backslash before anything
else is dropped. The last of several values for a key counts.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"(?:\\.|[^\\ \t\f=:])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of a ``.properties`` file."""
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches the empty string too
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescape(key[0])] = _unescape(line[separator.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations joined; comments and blank lines left out."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
        else:
            yield pending + line
            pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
