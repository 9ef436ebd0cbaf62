"""Pipelines on Spark: Kafka topics become tables, files and other topics, each record exactly once.

- ``rows``: the columns that every decoded row has, and ``batch``: which offsets a batch covers.
- ``settings``: the settings of a pipeline, as dataclasses; ``pipeline_file`` reads them from TOML.
- ``source`` reads topics, ``decode`` turns records into rows, ``sinks`` write them.
- ``pipeline``: the streaming query that puts these together.
- ``segments``: a data source of Spark that reads partition directories without a broker.

Rules:

- Spark schedules, shuffles and keeps state. Code in this package doesn't.
- The broker never imports this package. pyspark, pyarrow and the rest of the extra
  ``kwire[spark]`` are imported where they are used: ``kwire pipeline check`` of a wrong file
  answers before Spark starts.
- Everything works against any broker that speaks Kafka's protocol.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """``kwire.spark.Pipeline``, imported when it is used."""
    if name != "Pipeline":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("kwire.spark.pipeline").Pipeline
