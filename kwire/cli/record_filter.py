"""Selects the records that ``kwire consume`` prints, by expressions for key, value and headers."""

import argparse
import re
from collections.abc import Sequence

from kwire.record.records import Record


def expression(text: str) -> "re.Pattern[bytes]":
    """A regular expression that is searched for in bytes, as the type of an option."""
    try:
        return re.compile(text.encode())
    except (re.error, OverflowError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from error


def header_expression(text: str) -> "tuple[str, re.Pattern[bytes]]":
    """``NAME`` or ``NAME=REGEX``."""
    name, _, pattern = text.partition("=")
    return name, expression(pattern)


class RecordFilter:
    """A filter; every given expression must match."""

    def __init__(
        self,
        key: "re.Pattern[bytes] | None",
        value: "re.Pattern[bytes] | None",
        headers: "Sequence[tuple[str, re.Pattern[bytes]]]",
    ) -> None:
        self._key = key
        self._value = value
        self._headers = headers

    def keeps(self, record: Record) -> bool:
        """Whether to print the record; a key or value that is null matches nothing."""
        for wanted, content in ((self._key, record.key), (self._value, record.value)):
            if wanted is not None and (content is None or not wanted.search(content)):
                return False
        return all(
            any(found == name and pattern.search(value or b"") for found, value in record.headers)
            for name, pattern in self._headers
        )
