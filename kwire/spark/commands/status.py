"""``kwire pipeline status``: how far a pipeline is, by partition, also while it runs elsewhere.

It needs no Spark: it reads the checkpoint, the file ``status.json`` that a running pipeline renews,
the cluster's offsets, and the files of the table where they are within reach (``table_files``).
"""

import argparse
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_json
from kwire.cli.output import fail, wrong
from kwire.spark.commands.reading import add_examples, add_file, read_or_tell
from kwire.spark.settings import PipelineSettings, WrongSetting

if TYPE_CHECKING:
    from kwire.spark.progress import Status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments: the file, and the form of the output."""
    add_file(parser)
    add_json(parser)
    add_examples(
        parser, "kwire pipeline status orders.toml", "kwire pipeline status orders.toml --json"
    )


def run(options: argparse.Namespace) -> int:
    """Show a pipeline's status; returns the exit code."""
    from kwire.cli.tables import show, show_fields, show_json
    from kwire.spark.broker_view import UNREACHABLE

    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    try:
        found = status_of(settings)
    except WrongSetting as error:
        return wrong(f"{options.file}: {error}")
    except UNREACHABLE as error:
        return fail(f"the cluster at {settings.source.bootstrap_servers} doesn't answer: {error}")
    if options.json:
        show_json(found)
        return 0
    rows, reasons = found.pop("partitions"), found.pop("dead_letters_by_reason", {})
    empty = found.pop("columns_without_values")
    show_fields({name: value for name, value in found.items() if value not in ("", None)})
    columns = ["topic", "partition", "next", "committed", "end", "lag"]
    show(rows, {one: one.upper() for one in columns}, as_json=False, nothing="nothing read yet")
    if reasons:
        ordered = sorted(reasons.items(), key=lambda one: -one[1])
        counts = [{"reason": reason, "number": number} for reason, number in ordered]
        show(counts, {"number": "DEAD LETTERS", "reason": "REASON"}, as_json=False)
    if empty:
        counts = [{"column": name, "records": number} for name, number in empty.items()]
        show(counts, {"column": "COLUMN WITHOUT A VALUE", "records": "RECORDS"}, as_json=False)
    return 0


def status_of(settings: PipelineSettings) -> dict[str, Any]:
    """The known status of a pipeline; ClientError or KafkaError if the cluster doesn't answer."""
    from kwire.spark.broker_view import BrokerView
    from kwire.spark.checkpoint import Checkpoint, Offsets
    from kwire.spark.column_values import empty_columns
    from kwire.spark.incarnations import Incarnations
    from kwire.spark.progress import read_status
    from kwire.spark.storage import storage_at

    read: Offsets = {}
    empty: dict[str, int] = {}
    last, query_id, batch_id, note = None, "", -1, ""
    try:
        storage = storage_at(settings.checkpoint)
    except ValueError as error:
        note = f"{error}: only the cluster's part is shown"
    else:
        last, empty = read_status(storage), empty_columns(storage)
        directory = storage.url(Incarnations(storage).directory)
        checkpoint = Checkpoint(storage_at(directory))
        read, query_id = checkpoint.next_offsets(), checkpoint.query_id()
        batch_id = checkpoint.finished()
    group = settings.group or settings.name
    with BrokerView(settings.source, patience_s=0) as view:
        committed = view.committed(group)
        names = {*settings.source.topics, *(topic for topic, _ in {**read, **committed})}
        current = view.topics(names)
        partitions = [(name, at) for name, (_, count) in current.items() for at in range(count)]
        ends = view.ends(partitions)
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "next": read.get((topic, partition)),
            "committed": committed.get((topic, partition)),
            "end": ends[topic, partition],
            "lag": ends[topic, partition]
            - read.get((topic, partition), committed.get((topic, partition), 0)),
        }
        for topic, partition in sorted(partitions)
    ]
    found: dict[str, Any] = {"pipeline": settings.name, "group": group, "query": query_id}
    found |= {"batch": batch_id, "lag": sum(max(int(row["lag"] or 0), 0) for row in rows)}
    if last is not None:
        age_s = round(time.time() - last.seen_at_s, 1)
        found |= {"state": last.state, "seen_s_ago": age_s, "records": last.records}
        found |= {"records_per_s": round(last.rate, 1)}
        found |= {"value_bytes": last.value_bytes, "dead_letters": last.dead_letters}
        found |= {"lost_offsets": last.lost_offsets, "last_batch_s": round(last.last_batch_s, 3)}
        found |= {"files_written": last.files_written}
    found |= _files(settings, last)
    if last is not None:
        found |= {"error": last.error, "last_error": last.last_error}
        found |= {"last_error_at": _time(last.last_error_at_s)}
        found |= {"dead_letters_by_reason": last.dead_letters_by_reason}
    return found | {"columns_without_values": empty, "note": note, "partitions": rows}


def _files(settings: PipelineSettings, last: "Status | None") -> dict[str, Any]:
    """The table's files as they are now, else as the pipeline has noted them."""
    from kwire.spark.table_files import table_files

    found = table_files(settings.sink)
    if found is not None:
        files, small, size_bytes = found.files, found.small, found.size_bytes
    elif last is not None and last.files is not None:
        files, small, size_bytes = last.files, last.small_files or 0, last.table_bytes or 0
    else:
        return {"files": None, "small_files": None, "table_bytes": None}
    return {"files": files, "small_files": small, "table_bytes": size_bytes}


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds") if at_s else ""
