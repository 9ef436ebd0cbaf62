"""Segments (``.log``) and KRaft snapshots (``.checkpoint``): their batches and records.

Rules: the dump ends at an incomplete batch, as a broker's recovery does, and at bytes that are no
batch. A batch with a wrong checksum or wrong records is reported, and the dump goes on after it.

Source: DumpLogSegments of Kafka.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

from kwire.log.disk import Disk
from kwire.log.dump.control_records import control_record
from kwire.log.dump.lines import (
    INT_MAX,
    Decoded,
    Line,
    Options,
    Problems,
    base_offset,
    decode_text,
    optional_long,
)
from kwire.protocol.wire import MalformedRequest
from kwire.record.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    InvalidRecords,
    RecordBatch,
)
from kwire.record.compression import Compression
from kwire.record.records import Record, records

BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"

_SNAPSHOT = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")
_LENGTH = Struct(">i")


def dump_log(path: Path, options: Options, disk: Disk, problems: Problems) -> Iterator[Line]:
    """The lines of a file of batches; OSError, and DumpError for another kind of name."""
    yield _first_line(path)
    position = 0
    last_offset: int | None = None
    for batch in read_batches(path, disk, problems, max_bytes=options.max_bytes):
        is_valid = batch.crc_is_right()
        if not is_valid:
            problems.error(f"{path}: the batch at position {position} fails its checksum")
        yield _batch_line(batch, position, is_valid)
        for record in _records(path, batch, position, problems) if options.is_deep else ():
            if last_offset is not None and record.offset != last_offset + 1:
                heading = f"Non-consecutive offsets in {path.absolute()}"
                problems.note(heading, f"  {last_offset} is followed by {record.offset}")
            last_offset = record.offset
            yield from _record_line(batch, record, options)
        position += batch.size_bytes
    trailing = file_size(path, disk) - position
    if trailing > 0 and options.max_bytes == INT_MAX:
        text = f"Found {trailing} invalid bytes at the end of {path.name}"
        problems.error(f"{path}: {trailing} bytes at the end are not a complete batch")
        yield Line(text, {"type": "invalidBytes", "size": trailing})


def file_size(path: Path, disk: Disk) -> int:
    """The size of a file; OSError."""
    fd = disk.open_briefly(path)
    try:
        return disk.size(fd)
    finally:
        disk.close(fd)


def read_batches(
    path: Path, disk: Disk, problems: Problems, position: int = 0, max_bytes: int = INT_MAX
) -> Iterator[RecordBatch]:
    """The complete batches from ``position`` on; OSError."""
    fd = disk.open_briefly(path)
    try:
        end = min(disk.size(fd), max_bytes)
        while position + HEADER_BYTES <= end:
            header = disk.pread(fd, HEADER_BYTES, position)
            size_bytes = _LENGTH.unpack_from(header, 8)[0] + LOG_OVERHEAD_BYTES
            if size_bytes > end - position:
                return
            data = disk.pread(fd, max(size_bytes, HEADER_BYTES), position)
            try:
                batch = RecordBatch(data)
            except InvalidRecords as error:
                problems.error(f"{path}: no batch at position {position}: {error.message}")
                return
            yield batch
            position += batch.size_bytes
    finally:
        disk.close(fd)


def _first_line(path: Path) -> Line:
    if path.name == BOOTSTRAP_SNAPSHOT:
        return Line("KRaft bootstrap snapshot", {"type": "bootstrapSnapshot"})
    snapshot = _SNAPSHOT.fullmatch(path.name)
    if snapshot:
        offset, epoch = int(snapshot["offset"]), int(snapshot["epoch"])
        return Line(
            f"Snapshot end offset: {offset}, epoch: {epoch}",
            {"type": "snapshot", "endOffset": offset, "epoch": epoch},
        )
    first = base_offset(path)
    return Line(f"Log starting offset: {first}", {"type": "log", "startingOffset": first})


def _batch_line(batch: RecordBatch, position: int, is_valid: bool) -> Line:
    fields: dict[str, Any] = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.records_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "position": position,
        timestamp_label(batch): batch.max_timestamp,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": codec_name(batch.compression),
        "crc": batch.crc,
        "isvalid": is_valid,
    }
    shown = {**fields, "deleteHorizonMs": optional_long(batch.delete_horizon_ms)}
    text = " ".join(f"{name}: {_text(value)}" for name, value in shown.items())
    return Line(text, {"type": "batch", **fields})


def timestamp_label(batch: RecordBatch) -> str:
    """The name of the batch's timestamp type."""
    return "LogAppendTime" if batch.timestamp_type == LOG_APPEND_TIME else "CreateTime"


def codec_name(number: int) -> str:
    """The codec's name, or its number if no codec has that number."""
    try:
        return Compression(number).name.lower()
    except ValueError:
        return str(number)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _records(path: Path, batch: RecordBatch, position: int, problems: Problems) -> Iterator[Record]:
    try:
        yield from records(batch)
    except InvalidRecords as error:
        problems.error(f"{path}: the batch at position {position}: {error.message}")


def _record_line(batch: RecordBatch, record: Record, options: Options) -> Iterator[Line]:
    fields: dict[str, Any] = {}
    text = ""
    if not options.skip_record_metadata:
        fields = _metadata(batch, record)
        names = ",".join(fields["headerKeys"])
        shown = {**fields, "headerKeys": f"[{names}]"}
        text = " ".join(f"{name}: {value}" for name, value in shown.items())
    if batch.is_control:
        if options.skip_record_metadata:
            return
        said = _control(record)
        yield Line(f"| {text} {said.text}", {"type": "record", **fields, "control": said.value})
        return
    if options.print_data_log or options.decoder is not None:
        decode = options.decoder or decode_text
        for label, decoded in zip(("key", "payload"), decode(record), strict=True):
            if decoded is not None:
                text = f"{text} {label}: {decoded.text}".lstrip()
                fields[label] = decoded.value
    yield Line(f"| {text}", {"type": "record", **fields})


def _metadata(batch: RecordBatch, record: Record) -> dict[str, Any]:
    sequence = NO_SEQUENCE
    if batch.base_sequence != NO_SEQUENCE:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) & MAX_SEQUENCE
    return {
        "offset": record.offset,
        timestamp_label(batch): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [name for name, _ in record.headers],
    }


def _control(record: Record) -> Decoded:
    try:
        return control_record(record)
    except MalformedRequest as error:
        return Decoded(f"malformed control record: {error}", {"malformed": str(error)})
