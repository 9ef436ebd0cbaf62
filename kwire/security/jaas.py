"""JAAS lines: in Kafka's settings, they hold the users of PLAIN and the broker's own login.

The form is ``some.LoginModule required name="value" other='value';``. In a quoted value, a
backslash makes the next character an ordinary one.

Rule: an error text never repeats the JAAS line, because the line holds passwords.

Source: JaasConfig of Kafka (a java.io.StreamTokenizer).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(=|;)|([^\s"'=;]+))""", re.DOTALL
)
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """A text is not a JAAS line. The error says where it goes wrong, but does not quote it."""


class JaasLine(NamedTuple):
    """The login module of a JAAS line, and its options."""

    module: str
    options: Mapping[str, str]

    @property
    def module_name(self) -> str:
        """The name of the module's class, without its package."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> JaasLine:
    """Parse a JAAS line, which must have exactly one login module; JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0] in "=;" or tokens[1].lower() not in _FLAGS:
        raise JaasError('a JAAS line is: CLASS required NAME="VALUE" … ;')
    options: dict[str, str] = {}
    position = 2
    while tokens[position] != ";":
        if position + 3 >= len(tokens) or tokens[position + 1] != "=":
            raise JaasError(f"option {len(options) + 1} of the JAAS line must be NAME=VALUE")
        options[tokens[position].removeprefix("\0")] = tokens[position + 2].removeprefix("\0")
        position += 3
    if position + 1 != len(tokens):
        raise JaasError("a setting holds one login module, and text follows its semicolon")
    return JaasLine(tokens[0], options)


def _tokens(text: str) -> list[str]:
    """Split a line into words.

    A quoted word gets a zero character in front, so that a quoted ``=`` or ``;`` isn't mistaken for
    the sign.
    """
    found = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quotation mark of the JAAS line is not closed")
        double, single, mark, word = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            found.append("\0" + re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            found.append(mark or word)
        position = match.end()
    if not found or found[-1] != ";":
        raise JaasError("a JAAS line ends with a semicolon")
    return found
