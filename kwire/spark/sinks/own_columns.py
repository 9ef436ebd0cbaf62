"""kwire's own columns in a table that is there already: its topic, partition, offset and the like.

Rules:

- A table that lacks some gets them, and rows of before have null there.
- A table's column of such a name keeps its type if each value of kwire's fits and has the same
  order: whole numbers that are at least as wide. Where the table's format widens types, it has been
  widened before.
- Any other type is refused: at the pipeline's start, or, behind transforms, when a batch begins.
  Otherwise each record would be a dead letter, or ``verify`` and upserts would compare numbers as
  texts.
- A table's column of such a name that the pipeline doesn't write may have any type.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.spark.column_names import PARTITION_COLUMN
from kwire.spark.rows import HEADERS, KEY, METADATA, OFFSET, PARTITION, TIMESTAMP, TOMBSTONE, TOPIC
from kwire.spark.settings import PipelineSettings, SinkSettings, WrongSetting
from kwire.spark.sinks.misfits import WHOLE, Misfit

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES = {
    TOPIC: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    TIMESTAMP: "timestamp",
    KEY: "binary",
    HEADERS: "array<struct<key: string, value: binary>>",
    TOMBSTONE: "boolean",
}


def own_columns(sink: SinkSettings) -> set[str]:
    """Those of kwire's columns that a sink writes into its table."""
    found = {TOPIC, PARTITION, OFFSET, *(f"_{one}" for one in sink.metadata)}
    if sink.kind == "upsert":
        found |= {TIMESTAMP, *sink.options.get("key", [KEY])} & _TYPES.keys()
        if sink.options.get("deletes") == "mark":
            found.add(TOMBSTONE)
    return found


def own_schema(settings: PipelineSettings) -> "StructType":
    """kwire's own columns of a pipeline's rows, as they are without transforms."""
    from pyspark.sql.types import StructType

    types = _TYPES | ({KEY: "string"} if settings.decode.key == "text" else {})
    wanted = own_columns(settings.sink)
    texts = (f"{name} {of}" for name, of in types.items() if name in wanted)
    return StructType.fromDDL(", ".join(texts))


def of_values(misfits: Sequence[Misfit], sink: SinkSettings) -> list[Misfit]:
    """The misfits that can make dead letters, or none; WrongSetting for one of kwire's columns."""
    own = own_columns(sink)
    for one in misfits:
        if one.name in own and not _is_wider(one):
            _refuse(one, sink)
    return [one for one in misfits if one.name in own or one.name not in METADATA]


def _is_wider(misfit: Misfit) -> bool:
    if misfit.wanted is None:
        return False
    has, wanted = misfit.has.simpleString(), misfit.wanted.simpleString()
    return has in WHOLE and WHOLE.get(wanted, 0) >= WHOLE[has]


def _refuse(misfit: Misfit, sink: SinkSettings) -> None:
    is_iceberg = "iceberg" in (sink.options.get("format"), sink.kind.removeprefix("py"))
    name = PARTITION_COLUMN if is_iceberg and misfit.name == PARTITION else misfit.name
    told = f"the table there has no column {name}, and refuses to get it"
    if misfit.wanted is not None:
        told = f"the table's column {name} is {misfit.wanted.simpleString()}, not"
        told += f" {misfit.has.simpleString()}, and kwire keeps there where a row is from: rename"
        told += " the table's column, or name another table"
    told += f" ({misfit.refused})" if misfit.refused else ""
    key = "table" if sink.options.get("table") else "path"
    raise WrongSetting(f"sink.{key}", sink.options.get("table") or sink.path, told)
