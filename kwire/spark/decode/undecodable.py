"""Why a record can't be decoded: one line, which becomes the column ``_error``.

Every text begins with its kind. ``registry:`` is worth another try: the registry was away, or
doesn't know the schema yet. All others stay as wrong as they are.
"""

REGISTRY = "registry: "
VALUE = "value: "
KEY = "key: "

MAX_CHARS = 500
"""Longer texts are cut: an error may quote a value."""


class Undecodable(Exception):
    """A value that can't be decoded, for good."""

    kind = VALUE

    @property
    def text(self) -> str:
        """The line for the column."""
        line = " ".join(str(self).split()) or "it can't be decoded"
        return (self.kind + line)[:MAX_CHARS]


class NotYet(Undecodable):
    """A value that may be decoded later."""

    kind = REGISTRY


def is_worth_a_retry(error: str) -> bool:
    """Whether a record with this error may be decoded later."""
    return error.startswith(REGISTRY)
