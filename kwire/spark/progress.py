"""The reports of a running pipeline: a status file, metrics for Prometheus, and its backlog.

The file ``status.json`` beside the checkpoints is replaced after each batch and every few seconds.
``kwire pipeline status`` reads it in another process.
"""

import hashlib
import json
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kwire import __version__
from kwire.spark.batch_counts import MOST_REASONS, OTHER_REASONS, Counts
from kwire.spark.checkpoint import Offsets
from kwire.spark.masking import masked
from kwire.spark.settings import PipelineSettings
from kwire.spark.storage import Storage
from kwire.spark.table_files import TableFiles

FILE = "status.json"
ENDED = "ended"
STOPPED = "stopped"
RATE_S = 60.0

NOTE = "kwire.pipeline"
"""The key of a note that says whose it is; ``kwire.web.page.groups`` reads notes."""
_NOTED_REASONS = 5
_NOTED_CHARS = 200
"""A note is shorter than ``offset.metadata.max.bytes``, 4096 unless it is set."""


@dataclass(slots=True)
class Status:
    """The numbers of a run; ``ends`` and ``next`` are by ``topic-partition``."""

    state: str = "starting"
    started_at_s: float = field(default_factory=time.time)
    seen_at_s: float = 0.0
    query_id: str = ""
    batch_id: int = -1
    batches: int = 0
    records: int = 0
    value_bytes: int = 0
    dead_letters: int = 0
    lost_offsets: int = 0
    last_batch_s: float = 0.0
    max_offsets_per_trigger: int = 0
    rate: float = 0.0
    """Records a second, over the last minute."""
    dead_letters_by_reason: dict[str, int] = field(default_factory=dict)
    """Of all runs since the checkpoint began."""
    files: int | None = None
    small_files: int | None = None
    table_bytes: int | None = None
    files_written: int = 0
    """Files of the table that are there and were written in this run."""
    error: str = ""
    last_error: str = ""
    """The newest error, which stays when it is over, and over restarts."""
    last_error_at_s: float = 0.0
    next: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    settings: str = ""
    """The ``fingerprint`` of the settings of a run that has ended without an error."""

    @property
    def lag(self) -> int:
        """How many offsets are left to read."""
        return sum(max(end - self.next.get(one, 0), 0) for one, end in self.ends.items())

    def note(self, pipeline: str) -> str:
        """The status in short, for the group's offsets: kwire's page shows it with the group."""
        reasons = sorted(self.dead_letters_by_reason.items(), key=lambda one: -one[1])
        row = {
            NOTE: pipeline,
            "state": self.state,
            "records": self.records,
            "rate": round(self.rate, 1),
            "dead_letters": self.dead_letters,
            "reasons": {one[:_NOTED_CHARS]: count for one, count in reasons[:_NOTED_REASONS]},
            "lost_offsets": self.lost_offsets,
            "files_written": self.files_written,
            "files": self.files,
            "small_files": self.small_files,
            "last_error": self.last_error[:_NOTED_CHARS],
            "last_error_at_ms": int(self.last_error_at_s * 1000),
        }
        return json.dumps(row, ensure_ascii=False)


def read_status(storage: Storage) -> Status | None:
    """The status that the last run has left."""
    content = storage.read(FILE)
    if not content:
        return None
    known = {one.name for one in fields(Status)}
    return Status(**{name: one for name, one in json.loads(content).items() if name in known})


def fingerprint(settings: PipelineSettings) -> str:
    """A text that differs for settings with which a run may do something else, and no secret.

    The trigger doesn't count, nor do secrets, which a hash might give away; the version of kwire
    does.
    """
    shown = masked("", asdict(replace(settings, trigger="")))
    whole = json.dumps(shown, sort_keys=True, default=str)
    return hashlib.sha256(f"{__version__}\n{whole}".encode()).hexdigest()


def renew(storage: Storage, status: Status, offsets: Offsets) -> None:
    """Note that a pipeline has nothing to read now: each partition ends at its offset."""
    ends = {_key(*one): at for one, at in offsets.items()}
    now = replace(status, seen_at_s=time.time(), next=ends, ends=ends)
    storage.write(FILE, json.dumps(asdict(now), indent=1).encode())


class Progress:
    """Keeps the status, in its file and as metrics. Any thread may call."""

    def __init__(self, storage: Storage, pipeline: str, metrics: str = "") -> None:
        self.status = Status()
        self._storage = storage
        self._lock = threading.Lock()
        self._name = pipeline
        self._batches: deque[tuple[float, int]] = deque()
        old = read_status(storage)
        self._last_ends = dict(old.ends) if old else {}
        if old is not None:
            self.status.dead_letters_by_reason = old.dead_letters_by_reason
            self.status.last_error = old.last_error
            self.status.last_error_at_s = old.last_error_at_s
        self._metrics = _Metrics(pipeline, metrics) if metrics else None

    def last_ends(self, partitions: Offsets) -> Offsets:
        """The last known end offsets of partitions, from this run or the one before."""
        seen = self._last_ends | self.status.ends
        return {one: seen[_key(*one)] for one in partitions if _key(*one) in seen}

    def set(self, **values: Any) -> None:
        """Change fields of the status, and save it."""
        with self._lock:
            for name, value in values.items():
                setattr(self.status, name, value)
            if error := values.get("error"):
                self.status.last_error = error
                self.status.last_error_at_s = time.time()
                if self._metrics is not None:
                    self._metrics.failed(self.status.last_error_at_s)
            self._save()

    def table(self, found: TableFiles | None) -> None:
        """Note the files of the table; None if they aren't known."""
        if found is None:
            return
        with self._lock:
            status = self.status
            new = max(found.written - status.files_written, 0)
            status.files, status.small_files = found.files, found.small
            status.table_bytes = found.size_bytes
            status.files_written += new
            if self._metrics is not None:
                self._metrics.table(found, new)
            self._save()

    def note(self) -> str:
        """The status in short, to be kept with the group's offsets."""
        with self._lock:
            return self.status.note(self._name)

    def batch(self, batch_id: int, counts: Counts, seconds: float) -> None:
        """A batch is written."""
        with self._lock:
            status = self.status
            status.batch_id = batch_id
            status.batches += 1
            status.records += counts.records
            status.value_bytes += counts.value_bytes
            status.dead_letters += counts.dead_letters
            status.last_batch_s = seconds
            reasons: dict[str, int] = {}
            for reason, number in counts.reasons.items():
                label = self._count_reason(reason, number)
                reasons[label] = reasons.get(label, 0) + number
            status.rate = self._rate(counts.records)
            if self._metrics is not None:
                self._metrics.batch(replace(counts, reasons=reasons), seconds, status.rate)
            self._save()

    def _count_reason(self, reason: str, number: int) -> str:
        """Count dead letters of a reason; the reason they count for, of which there are few."""
        known = self.status.dead_letters_by_reason
        if reason not in known and len(known) > MOST_REASONS:
            reason = OTHER_REASONS
        known[reason] = known.get(reason, 0) + number
        return reason

    def _rate(self, records: int) -> float:
        """Records a second over ``RATE_S``, or since the start, with those of a batch just done."""
        now_s = time.time()
        self._batches.append((now_s, records))
        while self._batches[0][0] < now_s - RATE_S:
            self._batches.popleft()
        seconds = min(now_s - self.status.started_at_s, RATE_S)
        return sum(number for _, number in self._batches) / max(seconds, 1e-3)

    def offsets(self, next_offsets: Offsets, ends: Offsets) -> None:
        """Note the pipeline's position, and the ends of partitions; either may be empty."""
        with self._lock:
            self.status.next.update({_key(*one): at for one, at in next_offsets.items()})
            self.status.ends.update({_key(*one): at for one, at in ends.items()})
            if self._metrics is not None:
                self._metrics.offsets(self.status.next, self.status.ends)
            self._save()

    def lost(self, offsets: int) -> None:
        """Note that some offsets are lost."""
        with self._lock:
            self.status.lost_offsets += offsets
            if self._metrics is not None:
                self._metrics.lost.inc(offsets)
            self._save()

    def close(self) -> None:
        """No more metrics are served."""
        if self._metrics is not None:
            self._metrics.close()

    def _save(self) -> None:
        self.status.seen_at_s = time.time()
        self._storage.write(FILE, json.dumps(asdict(self.status), indent=1).encode())


class _Metrics:
    """The metrics of a pipeline, served for Prometheus."""

    def __init__(self, pipeline: str, address: str) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, start_http_server

        registry = CollectorRegistry()
        start = "kwire_pipeline_"

        def of(kind: Any, name: str, text: str, *labels: str) -> Any:
            metric = kind(start + name, text, ["pipeline", *labels], registry=registry)
            return metric if labels else metric.labels(pipeline)

        self._pipeline = pipeline
        self._records = of(Counter, "records", "Records read and written, dead letters included.")
        self._bytes = of(Counter, "value_bytes", "Bytes of the records' values.")
        self._dead = of(Counter, "dead_letters", "Records that could not be decoded.")
        self.lost = of(Counter, "lost_offsets", "Offsets that were lost before they were read.")
        self._seconds = of(Summary, "batch_seconds", "Time that a batch takes.")
        self._rate = of(Gauge, "records_per_second", "Records a second, over the last minute.")
        text = "Dead letters that are kept, by reason."
        self._reasons = of(Counter, "dead_letters_by_reason", text, "reason")
        self._written = of(Counter, "files_written", "Files that the run has added to the table.")
        self._files = of(Gauge, "table_files", "Files of the table.")
        self._small = of(Gauge, "table_small_files", "Files of the table below 32 MiB.")
        self._size = of(Gauge, "table_bytes", "Bytes of the table's files.")
        self._errors = of(Counter, "errors", "Errors of the pipeline, and of its cluster.")
        text = "When the newest error was, in seconds since 1970; 0 if there was none."
        self._error_at = of(Gauge, "last_error_timestamp_seconds", text)
        self._lag = of(Gauge, "lag", "Offsets left to read.", "topic", "partition")
        self._next = of(Gauge, "next_offset", "The next offset to read.", "topic", "partition")
        host, _, port = address.rpartition(":")
        self._server, self._thread = start_http_server(int(port), host or "0.0.0.0", registry)

    def failed(self, at_s: float) -> None:
        """Count an error."""
        self._errors.inc()
        self._error_at.set(at_s)

    def table(self, found: TableFiles, new: int) -> None:
        """Set the numbers of the table's files."""
        self._files.set(found.files)
        self._small.set(found.small)
        self._size.set(found.size_bytes)
        self._written.inc(new)

    def batch(self, counts: Counts, seconds: float, rate: float) -> None:
        """A batch is written."""
        for reason, number in counts.reasons.items():
            self._reasons.labels(self._pipeline, reason).inc(number)
        self._rate.set(rate)
        self._records.inc(counts.records)
        self._bytes.inc(counts.value_bytes)
        self._dead.inc(counts.dead_letters)
        self._seconds.observe(seconds)

    def offsets(self, next_offsets: dict[str, int], ends: dict[str, int]) -> None:
        """Set the pipeline's position in each partition."""
        for one, end in ends.items():
            topic, _, partition = one.rpartition("-")
            at = next_offsets.get(one, 0)
            self._next.labels(self._pipeline, topic, partition).set(at)
            self._lag.labels(self._pipeline, topic, partition).set(max(end - at, 0))

    def close(self) -> None:
        """No more metrics are served."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _key(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
