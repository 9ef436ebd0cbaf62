"""``kwire pipeline schema``: how the columns of the rows have changed, and at which offsets.

It needs neither Spark nor the cluster: it reads the history beside the checkpoint, which a pipeline
writes (``schema_history``).
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from kwire.cli.options import add_json
from kwire.cli.output import fail
from kwire.spark.commands.reading import add_examples, add_file, read_or_tell

_MOST_OFFSETS = 5
"""How many partitions a line names; JSON has all of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments: the file, and the form of the output."""
    add_file(parser)
    add_json(parser)
    add_examples(
        parser, "kwire pipeline schema orders.toml", "kwire pipeline schema orders.toml --json"
    )


def run(options: argparse.Namespace) -> int:
    """Show the history of a pipeline's columns, a line for each change; returns the exit code."""
    from kwire.cli.tables import show, show_json
    from kwire.spark.schema_history import read_history
    from kwire.spark.storage import storage_at

    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    try:
        entries = read_history(storage_at(settings.checkpoint))
    except ValueError as error:
        return fail(str(error))
    if options.json:
        show_json(list(map(printable_entry, entries)))
        return 0
    columns = ["at", "batch", "column", "before", "type", "schema", "offsets"]
    rows = [row for entry in entries for row in _rows(printable_entry(entry))]
    show(rows, {one: one.upper() for one in columns}, as_json=False, nothing="no batch yet")
    return 0


def printable_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with its types as SQL writes them, and the time for people."""
    from kwire.spark.decode.spark_types import text_of

    changed = {
        name: {"before": text_of(before), "type": text_of(of)}
        for name, (before, of) in entry["changed"].items()
    }
    at = datetime.fromtimestamp(entry["at"], UTC).isoformat(timespec="seconds")
    added = {name: text_of(of) for name, of in entry["added"].items()}
    return entry | {"at": at, "added": added, "changed": changed}


def _rows(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A line for each column."""
    offsets = [
        f"{topic}-{partition}: {first}"
        for topic, partitions in entry["offsets"].items()
        for partition, first in partitions.items()
    ]
    more = len(offsets) - _MOST_OFFSETS
    shown = ", ".join(offsets[:_MOST_OFFSETS]) + (f" and {more} more" if more > 0 else "")
    ids = ", ".join(map(str, sorted(set(entry["schema_ids"].values()))))
    same = {"at": entry["at"], "batch": entry["batch"], "schema": ids, "offsets": shown}
    for name, of in entry["added"].items():
        yield {**same, "column": name, "before": "", "type": of}
    for name, types in entry["changed"].items():
        yield {**same, "column": name, "before": types["before"], "type": types["type"]}
