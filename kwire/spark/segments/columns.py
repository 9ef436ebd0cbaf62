"""Makes Arrow's columns from the records of many batches, with numpy.

Rules:

- All records of a stretch are decoded together: one step for a field of all of them.
- Keys and values aren't copied one by one. An Arrow array covers the bytes as they are, and the
  bytes between two values are an element, too. ``take`` picks the elements with values.
- InvalidRecords is raised unless each record is exactly filled by its fields.
- A timestamp that is no time in Spark is null; the column STAMP has it as it is.
- Text that isn't UTF-8 (a header's key) becomes what Java makes of it: U+FFFD for the wrong bytes.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from kwire.record.batch import LOG_APPEND_TIME, TIMESTAMP_TYPE_MASK
from kwire.record.streaming_decompressor import invalid
from kwire.spark.rows import STAMP
from kwire.spark.segments.planning import Bounds, Task
from kwire.spark.segments.varints import find_records, varints

_LARGEST_MS = 0x7FFF_FFFF_FFFF_FFFF // 1000
_HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
ARROW_TYPES: dict[str, Any] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER_TYPE)),
    STAMP: pa.int64(),
}


class Spans:
    """The positions of byte strings; a length below 0 is null."""

    def __init__(self, lengths: Any, starts: Any) -> None:
        self.lengths = lengths
        self.starts = starts
        self.ends = starts + np.maximum(lengths, 0)

    def chosen(self, rows: Any) -> "Spans":
        """The spans at these indexes."""
        return Spans(self.lengths[rows], self.starts[rows])

    def array(self, data: Any) -> Any:
        """Arrow's array of the byte strings, which must ascend and not overlap."""
        count = len(self.lengths)
        if count == 0:
            return pa.array([], pa.binary())
        slots = np.empty(2 * count, np.int32)
        slots[0::2] = self.starts
        slots[1::2] = self.ends
        places = np.arange(0, 2 * count, 2, dtype=np.int32)
        nulls = self.lengths < 0
        indices = pa.array(places, mask=nulls if nulls.any() else None)
        buffers = [None, pa.py_buffer(slots), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers).take(indices)


def record_batch(
    data: Any,
    starts: Any,
    ends: Any,
    headers: Any,
    task: Task,
    bounds: Bounds,
    names: tuple[str, ...],
) -> Any:
    """Arrow's RecordBatch of the wanted records; None if there are none.

    ``headers`` are the batches' headers; their records are at ``starts`` to ``ends`` of ``data``.
    """
    counts = headers["count"].astype(np.int64)
    begins, finishes = find_records(data, starts, ends, counts)
    batch = np.repeat(np.arange(len(counts)), counts)
    deltas, position = varints(data, begins + 1)
    times, time_types = _timestamps(headers, batch, deltas)
    if bounds.bound_times and not np.any(_in_time(times, bounds)):
        return None
    offset_deltas, position = varints(data, position)
    offsets = headers["base_offset"].astype(np.int64)[batch] + offset_deltas
    rows = _wanted(offsets, times, task, bounds)
    if rows is not None:
        if not rows.size:
            return None
        batch, position, finishes = batch[rows], position[rows], finishes[rows]
        offsets, times, time_types = offsets[rows], times[rows], time_types[rows]
    if not len(offsets):
        return None
    keys = _span(data, position)
    values = _span(data, keys.ends)
    made = {
        "key": lambda: keys.array(data),
        "value": lambda: values.array(data),
        "topic": lambda: pa.repeat(pa.scalar(task.partition.topic), len(offsets)),
        "partition": lambda: pa.repeat(pa.scalar(task.partition.number, pa.int32()), len(offsets)),
        "offset": lambda: pa.array(offsets),
        "timestamp": lambda: _micros(times),
        "timestampType": lambda: pa.array(time_types.astype(np.int32)),
        "headers": lambda: _headers(data, values.ends, finishes),
        STAMP: lambda: pa.array(times),
    }
    _check(data, keys, values, finishes, has_headers="headers" in names)
    schema = pa.schema([(name, ARROW_TYPES[name]) for name in names])
    return pa.RecordBatch.from_arrays([made[name]() for name in names], schema=schema)


def _timestamps(headers: Any, batch: Any, deltas: Any) -> tuple[Any, Any]:
    """Each record's timestamp in ms, and its type."""
    types = ((headers["attributes"] & TIMESTAMP_TYPE_MASK) != 0).astype(np.int64) * LOG_APPEND_TIME
    times = headers["base_timestamp"].astype(np.int64)[batch] + deltas
    if types.any():
        appended = types[batch] == LOG_APPEND_TIME
        times[appended] = headers["max_timestamp"].astype(np.int64)[batch][appended]
    return times, types[batch]


def _wanted(offsets: Any, times: Any, task: Task, bounds: Bounds) -> Any:
    """The indexes of the records that are wanted; None if all are."""
    keep = (offsets >= task.first) & (offsets < task.end)
    if bounds.bound_times:
        keep &= _in_time(times, bounds)
    return None if keep.all() else np.flatnonzero(keep)


def _in_time(times: Any, bounds: Bounds) -> Any:
    return (times >= bounds.first_timestamp) & (times < bounds.end_timestamp)


def _span(data: Any, position: Any) -> Spans:
    return Spans(*varints(data, position))


def _check(data: Any, keys: Spans, values: Spans, finishes: Any, *, has_headers: bool) -> None:
    """Raise InvalidRecords if a key or value doesn't fit, or bytes are left over."""
    if np.any(values.ends >= finishes) or np.any(keys.ends >= finishes):
        raise invalid("a key or value does not fit into its record")
    counts, after = varints(data, values.ends)
    without = counts == 0
    if np.any(counts < 0) or np.any(after[without] != finishes[without]):
        raise invalid("bytes follow the last field of a record")
    if not has_headers and np.any(2 * counts > finishes - after):
        raise invalid("the headers do not fit into their record")


def _micros(times: Any) -> Any:
    """The column of timestamps; null for a time that Spark's microseconds can't hold."""
    is_odd = (times > _LARGEST_MS) | (times < -_LARGEST_MS)
    micros = np.where(is_odd, 0, times) * 1000
    return pa.array(micros, mask=is_odd if is_odd.any() else None).cast(ARROW_TYPES["timestamp"])


def _headers(data: Any, position: Any, finishes: Any) -> Any:
    """The column of headers: a list for each record, null for a record without any."""
    counts, position = varints(data, position)
    if np.any(2 * counts > finishes - position):
        raise invalid("the headers do not fit into their record")
    rows = np.flatnonzero(counts)
    places = np.cumsum(counts) - counts
    total = int(counts.sum())
    filled = [np.zeros(total, np.int64) for _ in range(4)]
    position, left = position[rows], counts[rows]
    place = places[rows]
    while rows.size:
        keys = _span(data, position)
        if np.any(keys.lengths < 0):
            raise invalid("a header has no key")
        if np.any(keys.ends >= finishes[rows]):
            raise invalid("a header does not fit into its record")
        values = _span(data, keys.ends)
        for column, part in zip(
            filled, (keys.lengths, keys.starts, values.lengths, values.starts), strict=True
        ):
            column[place] = part
        position, left, place = values.ends, left - 1, place + 1
        if np.any((position != finishes[rows])[left == 0]) or np.any(position > finishes[rows]):
            raise invalid("a header does not fit into its record")
        more = left > 0
        rows, position, left, place = rows[more], position[more], left[more], place[more]
    items = pa.StructArray.from_arrays(
        [_texts(Spans(*filled[:2]).array(data)), Spans(*filled[2:]).array(data)],
        fields=list(_HEADER_TYPE),
    )
    nulls = np.append(counts == 0, False)
    offsets = pa.array(np.append(places, total).astype(np.int32), mask=nulls)
    return pa.ListArray.from_arrays(offsets, items, type=ARROW_TYPES["headers"])


def _texts(array: Any) -> Any:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode(errors="replace") for item in array.to_pylist()], pa.string())
