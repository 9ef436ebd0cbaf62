"""Finds Parquet files whose times other readers than Spark take for others.

Such a file has timestamps of type INT96, or times by the Julian calendar; both are older settings
of Spark (``kwire.spark.parquet_times``). Only Spark reads both exactly, so Spark writes the rows of
such a file again.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INT96 = "INT96"
_COLUMN_OF_INT96 = re.compile(r"^\s*(required|optional|repeated) int96 ", re.MULTILINE)
"""A line of a schema as Parquet's Java library writes it; a column may have any name."""
_JULIAN = ("org.apache.spark.legacyINT96", "org.apache.spark.legacyDateTime")
"""Keys in the footer of files with times by the Julian calendar."""


def has_old_times(path: Path | str) -> bool:
    """Whether a file of this machine has such times."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    schema = found.schema
    types = {schema.column(number).physical_type for number in range(len(schema))}
    return _INT96 in types or any(one.encode() in (found.metadata or {}) for one in _JULIAN)


def any_has_old_times(spark: "SparkSession", urls: Iterable[str]) -> bool:
    """Whether one of some files has such times, on any file system that Spark knows."""
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    parquet = jvm.org.apache.parquet.hadoop
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    for one in urls:
        place = parquet.util.HadoopInputFile.fromPath(hadoop.Path(one), settings)
        reader = parquet.ParquetFileReader.open(place)
        try:
            found = reader.getFileMetaData()
            keys = found.getKeyValueMetaData()
            schema = str(found.getSchema().toString())
            if _COLUMN_OF_INT96.search(schema) or any(map(keys.get, _JULIAN)):
                return True
        finally:
            reader.close()
    return False
