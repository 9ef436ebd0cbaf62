"""The settings of a topic that concern its logs, in the form that the log uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kwire.config.settings import Value
from kwire.config.topic import topic_settings
from kwire.record.compression import BY_NAME, Compression
from kwire.record.streaming_decompressor import NO_RECORD_LIMIT

NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One field per setting, under Kafka's name; sizes are bytes, times are milliseconds.

    ``compression`` is None if batches keep the producer's compression. The defaults are Kafka's.
    ``takes_plain`` says that a batch of a client can be appended as it is: its records need no
    check or change. ``takes_own`` says the same for batches of the
    broker's own coordinators.
    """

    compact: bool = False
    delete: bool = True
    delete_retention_ms: int = 86_400_000
    compression: Compression | None = None
    compression_level: int | None = None
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = NO_LIMIT
    max_decompressed_message_bytes: int = NO_RECORD_LIMIT
    max_message_bytes: int = 1_048_588
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    log_append_time: bool = False
    timestamp_after_max_ms: int = 3_600_000
    timestamp_before_max_ms: int = NO_LIMIT
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    producer_id_expiration_ms: int = 86_400_000
    producer_ids_max: int = 10_000
    producer_ids_max_of_broker: int = 500_000
    takes_plain: bool = field(init=False, repr=False)
    takes_own: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        takes_own = not self.log_append_time and self.flush_messages == NO_LIMIT
        takes_plain = (
            takes_own
            and not self.compact
            and self.compression is None
            and self.timestamp_before_max_ms == NO_LIMIT
            and self.max_decompressed_message_bytes == NO_RECORD_LIMIT
        )
        object.__setattr__(self, "takes_own", takes_own)
        object.__setattr__(self, "takes_plain", takes_plain)

    @classmethod
    def from_settings(
        cls,
        values: Mapping[str, Any],
        broker: Mapping[str, Any],
    ) -> "LogConfig":
        """Make one from the effective, parsed settings of a topic and of its broker."""
        kind = values["compression.type"]
        compression = None if kind == "producer" else BY_NAME[kind]
        level = values.get(f"compression.{kind}.level")
        policy = values["cleanup.policy"]
        segment_ms = values["segment.ms"]
        if "compact" in policy:  # compaction leaves out the active segment, so it must roll in time
            segment_ms = min(segment_ms, values["max.compaction.lag.ms"])
        return cls(
            compact="compact" in policy,
            delete="delete" in policy,
            delete_retention_ms=values["delete.retention.ms"],
            compression=compression,
            compression_level=level,
            file_delete_delay_ms=values["file.delete.delay.ms"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            index_interval_bytes=values["index.interval.bytes"],
            max_compaction_lag_ms=values["max.compaction.lag.ms"],
            max_decompressed_message_bytes=values["max.decompressed.message.bytes"],
            max_message_bytes=values["max.message.bytes"],
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
            timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
            timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
            min_insync_replicas=values["min.insync.replicas"],
            retention_bytes=values["retention.bytes"],
            retention_ms=values["retention.ms"],
            segment_bytes=values["segment.bytes"],
            segment_index_bytes=values["segment.index.bytes"],
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_ms=segment_ms,
            producer_id_expiration_ms=broker["producer.id.expiration.ms"],
            producer_ids_max=broker["kwire.producer.ids.max.per.partition"],
            producer_ids_max_of_broker=broker["kwire.producer.ids.max"],
        )

    @classmethod
    def from_broker(cls, broker: Mapping[str, Value]) -> "LogConfig":
        """Make one for a topic without settings of its own, on a broker with these settings."""
        return cls.from_settings(topic_settings({}, broker), broker)
