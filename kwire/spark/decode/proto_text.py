"""Finds the message of a ``.proto`` text that a path of indexes names.

Confluent's wire format names a message by its place in the writer's schema, not by its name. This
module reads only the messages of the text, so that executors need no compiler.
"""

import re
from dataclasses import dataclass, field

from kwire.schemas.undecodable import Undecodable

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_][\w.]*|[^\s\w]",
    re.DOTALL,
)
_MAX_DEPTH = 64


@dataclass(slots=True)
class _Message:
    name: str
    inner: "list[_Message]" = field(default_factory=list)


def message_name(text: str, indexes: tuple[int, ...]) -> str:
    """The full name of a message; Undecodable if the text has no such message."""
    package, messages = _outline(text)
    names = [package] if package else []
    for index in indexes:
        if not 0 <= index < len(messages):
            raise Undecodable(f"its schema has no message with the indexes {list(indexes)}")
        names.append(messages[index].name)
        messages = messages[index].inner
    return ".".join(names)


def _outline(text: str) -> tuple[str, list[_Message]]:
    """The package and the messages at the top."""
    tokens = [one for one in _TOKEN.findall(text) if not one.startswith(("//", "/*"))]
    package = ""
    root = _Message("")
    open_blocks: list[_Message | None] = [root]
    for place, token in enumerate(tokens):
        block = open_blocks[-1] if open_blocks else None
        before = tokens[max(0, place - 2) : place]
        if token == "package" and len(open_blocks) == 1 and place + 1 < len(tokens):
            package = package or tokens[place + 1]
        elif token == "{":
            if len(open_blocks) > _MAX_DEPTH:
                raise Undecodable(f"its schema is nested more than {_MAX_DEPTH} deep")
            open_blocks.append(_opened(before, block))
        elif token == "}" and len(open_blocks) > 1:
            open_blocks.pop()
    return package, root.inner


def _opened(before: list[str], block: _Message | None) -> _Message | None:
    """The message that ``message NAME {`` opens; None for any other block."""
    if block is None or len(before) < 2 or before[0] != "message":
        return None
    message = _Message(before[1])
    block.inner.append(message)
    return message
