"""The kinds of sinks, and the table that finds them: a kind is imported when a pipeline uses it."""

from importlib import import_module
from typing import cast

from kwire.spark.setting_checks import near
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Sink

KINDS = {
    "parquet": "kwire.spark.sinks.files:FilesSink",
    "json": "kwire.spark.sinks.files:FilesSink",
    "delta": "kwire.spark.sinks.delta:DeltaSink",
    "iceberg": "kwire.spark.sinks.iceberg:IcebergSink",
    "upsert": "kwire.spark.sinks.upsert:UpsertSink",
    "topic": "kwire.spark.sinks.topic:TopicSink",
    "delta-rs": "kwire.spark.sinks.delta_rs:DeltaRsSink",
    "pyiceberg": "kwire.spark.sinks.iceberg_py:PyIcebergSink",
}
"""``module:class`` of each kind; the class is called with the arguments of ``make_sink``."""

FILE_KINDS = ("parquet", "json")
"""The kinds whose directory only one driver may write to."""


def make_sink(settings: SinkSettings, source: Source, pipeline: str) -> Sink:
    """The sink of a kind; WrongSetting if there is none."""
    if settings.kind not in KINDS:
        raise WrongSetting("sink.kind", settings.kind, near(settings.kind, KINDS))
    module, _, name = KINDS[settings.kind].partition(":")
    return cast(Sink, getattr(import_module(module), name)(settings, source, pipeline))
