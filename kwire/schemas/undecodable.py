"""Why a record can't be decoded: one line, which pipelines write to the column ``_error``.

Every text begins with its kind. ``registry:`` is worth another try: the registry didn't answer, or
doesn't know the schema yet. Records with other errors can never be decoded.
"""

REGISTRY = "registry: "
VALUE = "value: "
KEY = "key: "
TIMESTAMP = "timestamp: "
RECORD = "record: "

NOT_KNOWN = (
    "schema id {} has other columns, and is none of the versions that were known when the batch "
    "began"
)
"""Why a value isn't decoded that would lose columns; with the schema's id."""

MAX_CHARS = 500
"""Longer texts are cut: an error may quote a value."""


class WrongSchema(ValueError):
    """A schema that can't be used, and why."""


class Undecodable(Exception):
    """A value that can never be decoded."""

    kind = VALUE

    @property
    def text(self) -> str:
        """The line for the column; half a character (``\\ud800``), as JSON may have it, escaped."""
        line = " ".join(str(self).split()) or "it can't be decoded"
        return (self.kind + line).encode("utf-8", "backslashreplace").decode()[:MAX_CHARS]


class Unwritable(ValueError):
    """A value of JSON that doesn't fit its schema: where, and why."""


class NotYet(Undecodable):
    """A value that may be decoded later."""

    kind = REGISTRY


def is_worth_a_retry(error: str) -> bool:
    """Whether a record with this error may be decoded later."""
    return error.startswith(REGISTRY)
