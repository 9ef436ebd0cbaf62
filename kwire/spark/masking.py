"""Values of settings as messages show them, without secrets.

A value is secret if its key says so (``password``, ``secret``, ``token``, …). In other texts, the
user and password before the host of a URL are secret, and so is text after ``password=`` and the
like.
"""

import re
from collections.abc import Mapping

MASK = "***"

_SECRET_KEY = re.compile(
    r"passw|passphrase|secret|token|credential|jaas|private|access[._-]?key|account[._-]?key"
    r"|api[._-]?key|signature",
    re.IGNORECASE,
)
_WORD = re.compile(r"""[^\s"']+""")
_ASSIGNED = re.compile(
    r"""((?:password|passwd|secret|token|signature|api_?key)\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&;,]+)""",
    re.IGNORECASE,
)


def masked(key: str, value: object) -> object:
    """A value to be shown; tables and lists are searched for secrets."""
    if isinstance(value, Mapping):
        return {name: masked(str(name), one) for name, one in value.items()}
    if _SECRET_KEY.search(key) and value not in ("", None, [], ()):
        return MASK
    if isinstance(value, list | tuple):
        return type(value)(masked(key, one) for one in value)
    if isinstance(value, str):
        return _ASSIGNED.sub(rf"\1{MASK}", _WORD.sub(_without_user, value))
    return value


def _without_user(word: re.Match[str]) -> str:
    """A word without the part between its first colon and its last @."""
    before, at, host = word[0].rpartition("@")
    scheme, colon, rest = before.partition(":")
    slashes = rest[: len(rest) - len(rest.lstrip("/"))]
    return f"{scheme}:{slashes}{MASK}@{host}" if at and colon else word[0]
