"""A JSON schema that is inferred from samples, and kept in a file.

Rules:

- The file (``[decode] inferred_schema``) has the struct as Spark writes types in JSON. It may be
  edited. Without it the first batch's sample makes it.
- Later batches are sampled again when the last sample is ``refresh_s`` old. New columns are added
  to the file and so to the table. A known column never changes its type: a value that doesn't fit
  becomes a dead letter.
- Tables don't distinguish ``id`` and ``ID``, and rows have columns of their own
  (``kwire.spark.rows``). If names collide, only the first one becomes a column, so that no record
  can stop the pipeline by a name.
- A new column is left out until a sample has it: its earlier values are not read.
"""

import json
import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.spark.decode.ddl import parse_type
from kwire.spark.decode.options import Options
from kwire.spark.decode.same_names import named_once
from kwire.spark.decode.spark_types import SparkType, array, field, kind_of, struct
from kwire.spark.rows import METADATA
from kwire.spark.settings import WrongSetting
from kwire.spark.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_SAMPLED_BYTES = 1 << 20
"""Values of more bytes aren't sampled."""


def grown(known: SparkType, found: SparkType) -> SparkType:
    """``known`` with the columns that only ``found`` has; the columns of ``known`` don't change."""
    if isinstance(known, str) or isinstance(found, str) or kind_of(known) != kind_of(found):
        return known
    if kind_of(known) == "array":
        return array(grown(known["elementType"], found["elementType"]))
    if kind_of(known) != "struct":
        return known
    others = {one["name"]: one["type"] for one in found["fields"]}
    taken = [one["name"] for one in known["fields"]]
    fields = [
        {**one, "type": grown(one["type"], others.pop(one["name"]))}
        if one["name"] in others
        else one
        for one in known["fields"]
    ]
    new = [field(name, of) for name, of in others.items()]
    return struct([*fields, *named_once(new, taken)])


def settled(spark_type: SparkType) -> SparkType | None:
    """The type that a column gets from a sampled type; None if the sample doesn't show a type.

    Decimals become double, because their scale in a sample depends on the values that happened to
    come. A value of several types is kept as JSON text.
    """
    if isinstance(spark_type, str):
        if spark_type == "void":
            return None
        if re.match("decimal", spark_type):
            return "double"
        return "string" if spark_type == "variant" else spark_type
    if kind_of(spark_type) == "array":
        item = settled(spark_type["elementType"])
        return None if item is None else array(item)
    if kind_of(spark_type) != "struct":
        return spark_type
    fields = [(one["name"], settled(one["type"])) for one in spark_type["fields"]]
    kept = named_once([field(name, one) for name, one in fields if one is not None])
    return struct(kept) if kept else None


class _Kept:
    """The kept schema of one file, and when a batch was last sampled."""

    def __init__(self) -> None:
        self.struct: dict[str, Any] | None = None
        self.sampled_s = 0.0


@lru_cache(maxsize=64)
def _kept_in(path: str) -> _Kept:
    return _Kept()


def inferred_struct(records: "DataFrame", options: Options) -> dict[str, Any]:
    """The columns for a batch; WrongSetting if there is no schema and nothing to infer it from."""
    path = options["inferred_schema"]
    kept = _kept_in(path)
    now_s = time.monotonic()
    if kept.struct is not None and now_s - kept.sampled_s < options.refresh_s:
        return kept.struct
    directory, _, name = path.rpartition("/")
    files = storage_at(directory or ".", records.sparkSession)
    text = files.read(name)
    known = None if text is None else _read(path, text.decode())
    found = _sampled(records, options["sample"])
    if known is None and found is None:
        raise WrongSetting(
            "decode.inferred_schema",
            path,
            f"none of the first {options['sample']} records is a JSON object with columns: "
            "give decode.schema",
        )
    whole = found if known is None else known if found is None else grown(known, found)
    assert isinstance(whole, dict)
    if whole != known:
        files.write(name, json.dumps(whole, indent=2).encode())
    kept.struct, kept.sampled_s = whole, now_s
    return whole


def _read(path: str, text: str) -> dict[str, Any]:
    from pyspark.sql.types import StructType

    try:
        found: dict[str, Any] = StructType.fromJson(json.loads(text)).jsonValue()
    except Exception as error:  # KeyError, ParseException, …: whatever an edited file brings
        allowed = f"the file holds no schema: {error}; mend it, or delete it to infer it again"
        raise WrongSetting("decode.inferred_schema", path, allowed) from error
    return found


def _sampled(records: "DataFrame", size: int) -> SparkType | None:
    from pyspark.sql import functions as f

    value = f.col("value")
    texts = records.where(value.isNotNull() & (f.octet_length(value) <= MAX_SAMPLED_BYTES))
    objects = texts.limit(size).select(f.try_parse_json(value.cast("string")).alias("value"))
    is_object = f.schema_of_variant(f.col("value")).startswith("OBJECT")
    [[text]] = objects.where(is_object).select(f.schema_of_variant_agg("value")).collect()
    of = settled(parse_type(text, cut=True)) if text else None
    if not isinstance(of, dict) or kind_of(of) != "struct":
        return None
    fields = named_once(of["fields"], METADATA)
    return struct(fields) if fields else None
