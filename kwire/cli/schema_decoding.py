"""Keys and values in a registry's format, as JSON for ``kwire consume --registry``.

Rules:

- ``learn`` asks the registry, and waits: it belongs into a thread. ``decoded`` never waits.
- What isn't in that format stays as it is. What is, and can't be read, stays too, and the reason is
  said once on stderr.
"""

import sys
import time
from collections.abc import Sequence

from kwire.cli.tables import one_line
from kwire.record.records import Record
from kwire.schemas.readable import ReadableValues, is_framed
from kwire.schemas.registry import RegistrySettings
from kwire.schemas.undecodable import Undecodable

_PATIENCE_S = 30.0
_MOST_REASONS = 100


class SchemaDecoding:
    """Decodes records by the schemas of one registry."""

    def __init__(self, url: str) -> None:
        login = "--registry http://USER:PASSWORD@…"
        self._values = ReadableValues(RegistrySettings(url, login_names=login))
        self._said: set[str] = set()

    def learn(self, records: Sequence[Record]) -> None:
        """Ask for the schemas of these records."""
        contents = [one for record in records for one in (record.key, record.value) if one]
        self._values.learn(self._values.unknown(contents), time.monotonic() + _PATIENCE_S)

    def decoded(self, record: Record) -> Record:
        """The record with its key and value as JSON on one line."""
        return record._replace(key=self._text(record.key), value=self._text(record.value))

    def _text(self, content: bytes | None) -> bytes | None:
        if not content or not is_framed(content):
            return content
        try:
            lines = self._values.decoded(content).text.splitlines()
        except Undecodable as error:
            self._say(str(error))
            return content
        return " ".join(line.strip() for line in lines).encode()

    def _say(self, reason: str) -> None:
        if reason not in self._said and len(self._said) < _MOST_REASONS:
            self._said.add(reason)
            print(f"kwire: not decoded: {one_line(reason)}", file=sys.stderr)
