"""Prints what a command has changed: a line for each change, or one JSON document.

A failure is one line on stderr in both cases, and makes the exit code 1.
"""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.output import fail
from kwire.cli.session import described
from kwire.cli.tables import show_json

if TYPE_CHECKING:
    from kwire.errors import KafkaError


class Outcomes:
    """The results of a command, one for each topic, group or other thing to change."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._as_json: bool = options.json
        self._rows: list[dict[str, Any]] = []
        self._exit_code = 0

    def done(self, name: str, text: str) -> None:
        """Report success for the thing with this name; ``text`` says so."""
        self._rows.append({"name": name, "ok": True, "text": text})
        if not self._as_json:
            print(text)

    def failed(self, name: str, error: "KafkaError", text: str = "") -> None:
        """Report that the thing with this name could not be changed; ``text`` says why."""
        text = text or described(error, self._options, name)
        self._rows.append({"name": name, "ok": False, "text": text, "error": error.code.name})
        self._exit_code = fail(text)

    def finish(self) -> int:
        """Print the document if the user wants JSON; returns the exit code."""
        if self._as_json:
            show_json(self._rows)
        return self._exit_code
