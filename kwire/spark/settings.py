"""The settings of a pipeline: one dataclass for each table of its TOML file, with the same names.

``pipeline_file`` reads and checks the settings. This module has only their defaults. The tables
``decode`` and ``sink`` have several kinds. Their field ``options`` holds the options of one kind.
The module of that kind checks the options and raises ``WrongSetting`` for wrong ones.
"""

from dataclasses import dataclass, field
from typing import Any

from kwire.spark.masking import masked


class WrongSetting(ValueError):
    """A value that the pipeline can't use: its key, the value, and what is allowed."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(f"{key} = {masked(key, value)!r}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Source:
    """Where the records come from. ``client`` holds Kafka's own client options."""

    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    starting: str = "earliest"
    """earliest, latest, a time (ISO 8601), or ``{"topic": {"0": offset}}`` as JSON."""
    isolation_level: str = "read_committed"
    client: dict[str, str] = field(default_factory=dict)
    max_offsets_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    """0 means no limit."""
    on_data_loss: str = "stop"
    """stop, or record. With record the pipeline goes on: a table and a metric tell of the loss."""


@dataclass(frozen=True, slots=True)
class Decode:
    """How values become rows: ``format`` is json, avro, protobuf, csv, debezium, text or bytes."""

    format: str = "json"
    key: str = "bytes"
    """bytes or text."""
    registry: str = ""
    """http://HOST:PORT of a schema registry; values then have Confluent's wire format."""
    options: dict[str, Any] = field(default_factory=dict)
    """The options of the format: schema, schema_file, message, delimiter, …"""


@dataclass(frozen=True, slots=True)
class Transform:
    """One step between decoding and the sink: either SQL over ``rows``, or ``module:function``."""

    sql: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where the rows go: ``kind`` is parquet, json, delta, iceberg, topic, …"""

    kind: str
    path: str = ""
    metadata: tuple[str, ...] = ()
    """Which of topic, partition, offset, timestamp, key, headers, tombstone the table has."""
    options: dict[str, Any] = field(default_factory=dict)
    tombstones: str = ""
    """skip, row or dead letter; empty for the default of ``kwire.spark.tombstones``."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where records go that can't be decoded: a topic, or a table (``path`` and ``kind``)."""

    topic: str = ""
    path: str = ""
    kind: str = "parquet"
    retry_delays_s: tuple[float, ...] = ()
    """Delays of the retry topics, in rising order; without delays there are no retry topics."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A whole pipeline."""

    name: str
    source: Source
    sink: SinkSettings
    checkpoint: str
    decode: Decode = Decode()
    transforms: tuple[Transform, ...] = ()
    dead_letters: DeadLetters | None = None
    trigger: str = "10 seconds"
    """An interval as Spark writes it, or ``once``: read the records that exist, then end."""
    group: str = ""
    """The consumer group that gets finished batches' offsets; empty for the pipeline's name."""
    metrics: str = ""
    """HOST:PORT at which Prometheus reads metrics; empty for no metrics."""
    spark: dict[str, str] = field(default_factory=dict)
    """Spark's own settings."""
