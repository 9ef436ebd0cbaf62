"""What a dump is made of: lines, the problems it met, and what was asked for."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kwire.record.records import Record

INT_MAX = (1 << 31) - 1


class DumpError(Exception):
    """A file can't be dumped; the text is one line that names it."""


class Line(NamedTuple):
    """One line as Kafka's tool prints it, and the same as fields for JSON."""

    text: str
    fields: Mapping[str, Any]


class Decoded(NamedTuple):
    """A key or a payload: what text shows, and what JSON shows."""

    text: str
    value: Any


Decoder: TypeAlias = Callable[[Record], tuple[Decoded | None, Decoded | None]]
"""Key and payload of a record, None where it has none."""


class Options(NamedTuple):
    """What to show; the names are those of the tool's options."""

    decoder: Decoder | None = None
    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    max_bytes: int = INT_MAX
    index_sanity_check: bool = False
    verify_index_only: bool = False

    @property
    def is_deep(self) -> bool:
        """Whether batches are opened."""
        return self.deep_iteration or self.print_data_log or self.decoder is not None


class Problems:
    """What is told after the lines: what is wrong, and what may be as it should be.

    Each has a heading, and details under it.
    """

    def __init__(self) -> None:
        self._notes: dict[str, list[str]] = {}
        self._errors: dict[str, list[str]] = {}

    def __bool__(self) -> bool:
        """Whether anything is wrong."""
        return bool(self._errors)

    def note(self, heading: str, detail: str) -> None:
        """Something that may be as it should be."""
        self._notes.setdefault(heading, []).append(detail)

    def error(self, heading: str, detail: str = "") -> None:
        """Something that is wrong."""
        self._errors.setdefault(heading, []).append(detail)

    def lines(self) -> Iterator[str]:
        """All of them, what is wrong at the end."""
        for told in (self._notes, self._errors):
            for heading, details in told.items():
                yield heading
                yield from filter(None, details)


def base_offset(path: Path) -> int:
    """The offset that a file is named after; DumpError."""
    stem = path.name.split(".", 1)[0]
    if not stem.isdecimal():
        raise DumpError(f"{path} is not named after the offset it begins at")
    return int(stem)


def optional_long(value: int | None) -> str:
    """How Java prints a number that may be absent."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def text_of(value: bytes) -> Decoded:
    """Bytes as UTF-8; where they aren't, text has replacement characters and JSON has base64."""
    try:
        text = value.decode()
        return Decoded(text, text)
    except UnicodeDecodeError:
        from base64 import b64encode

        return Decoded(value.decode(errors="replace"), {"base64": b64encode(value).decode()})


def decode_text(record: Record) -> tuple[Decoded | None, Decoded | None]:
    """Key and payload as text, whatever they are."""
    return (
        None if record.key is None else text_of(record.key),
        None if record.value is None else text_of(record.value),
    )
