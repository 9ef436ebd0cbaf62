"""The parts of a dump: its lines, the problems that it has found, and its options."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kwire.record.records import Record

INT_MAX = (1 << 31) - 1


class DumpError(Exception):
    """A file can't be dumped; the text is one line that names the file."""


class Line(NamedTuple):
    """One line as Kafka's tool prints it, and its content as fields for JSON."""

    text: str
    fields: Mapping[str, Any]


class Decoded(NamedTuple):
    """A decoded key or payload, as text and as a JSON value."""

    text: str
    value: Any


Decoder: TypeAlias = Callable[[Record], tuple[Decoded | None, Decoded | None]]
"""Decodes key and payload of a record; None for a missing one."""


class Options(NamedTuple):
    """What to print; the names are those of the tool's options."""

    decoder: Decoder | None = None
    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    max_bytes: int = INT_MAX
    index_sanity_check: bool = False
    verify_index_only: bool = False

    @property
    def is_deep(self) -> bool:
        """Whether records are printed, so that batches have to be opened."""
        return self.deep_iteration or self.print_data_log or self.decoder is not None


class Problems:
    """Messages that are printed after the lines: errors, and notes on oddities that are no errors.

    Each message has a heading, with details under it.
    """

    def __init__(self) -> None:
        self._notes: dict[str, list[str]] = {}
        self._errors: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        """Whether there are errors."""
        return bool(self._errors)

    def note(self, heading: str, detail: str) -> None:
        """Add a message about an oddity, such as missing offsets, that may be correct."""
        self._notes.setdefault(heading, []).append(detail)

    def error(self, heading: str, detail: str = "") -> None:
        """Add a message about an error."""
        self._errors.setdefault(heading, []).append(detail)

    def lines(self) -> Iterator[str]:
        """All messages, errors last."""
        for messages in (self._notes, self._errors):
            for heading, details in messages.items():
                yield heading
                yield from filter(None, details)


def base_offset(path: Path) -> int:
    """The base offset in a file's name; DumpError if there is none."""
    stem = path.name.split(".", 1)[0]
    if not stem.isdecimal():
        raise DumpError(f"the name of {path} does not begin with an offset")
    return int(stem)


def optional_long(value: int | None) -> str:
    """An optional number as Java prints it."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def text_of(value: bytes) -> Decoded:
    """Bytes as UTF-8. For other bytes, text has replacement characters and JSON has base64."""
    try:
        text = value.decode()
        return Decoded(text, text)
    except UnicodeDecodeError:
        from base64 import b64encode

        return Decoded(value.decode(errors="replace"), {"base64": b64encode(value).decode()})


def decode_text(record: Record) -> tuple[Decoded | None, Decoded | None]:
    """Key and payload as text, whatever their format is."""
    return (
        None if record.key is None else text_of(record.key),
        None if record.value is None else text_of(record.value),
    )
