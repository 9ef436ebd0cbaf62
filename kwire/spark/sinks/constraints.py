"""Constraints of a table that rows may break: a record whose row breaks one is a dead letter.

Others make tables too, with columns that are NOT NULL, CHECK constraints, lengths of texts. The
table refuses a whole batch for one such row, at each start. So the rows of a batch are compared
with the table's constraints before they are written, which costs one more reading of the batch.
A table without constraints costs nothing.

Rules:

- A CHECK has to be true: null isn't, as Delta's protocol says.
- A field that is NOT NULL within a struct has to be there, with Delta also if the struct is null.
- A column that rows lack is null, unless the table makes its value (a generated column, a default).
- The table is asked every ``ASK_AGAIN_S`` seconds. A constraint that was added in between may end a
  run; the next one knows it.
- A condition that Spark can't evaluate is left to the table.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.schemas.undecodable import MAX_CHARS, VALUE
from kwire.spark.decode.same_names import ByName
from kwire.spark.rows import OFFSET, PARTITION, TOPIC
from kwire.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WHY = "__kwire_why"
"""The column of ``Constraints.refused`` that has the reason."""

ASK_AGAIN_S = 60.0
_CHECK = "delta.constraints."
_MADE_BY = ("delta.generationExpression", "CURRENT_DEFAULT")
_TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"

Described = tuple[dict[str, Any], Mapping[str, str]]
"""A table's schema as Spark's JSON, and its properties."""


class Constraint(NamedTuple):
    """A condition in SQL over a table's columns, and what is told of a row that breaks it."""

    condition: str
    told: str


def constraints_of(
    schema: dict[str, Any], properties: Mapping[str, str], *, needs_parents: bool = True
) -> list[Constraint]:
    """The constraints of a table; ``needs_parents``: a null struct lacks what is NOT NULL in it."""
    found = list(_of_fields(schema, "", needs_parents))
    for name, condition in properties.items():
        if name.startswith(_CHECK):
            told = f"the table refuses its row: CHECK {name.removeprefix(_CHECK)} ({condition})"
            found.append(Constraint(condition, told))
    return found


def _of_fields(of: dict[str, Any], prefix: str, needs_parents: bool) -> Iterator[Constraint]:
    for one in of["fields"]:
        path, kind, more = f"{prefix}{quoted(one['name'])}", one["type"], one["metadata"]
        name = path.replace("`", "")
        if not one["nullable"]:
            told = f"column {name} has no value, and the table's is NOT NULL"
            condition = f"{path} IS NOT NULL"
            if prefix and not needs_parents:
                condition = f"{prefix[:-1]} IS NULL OR {condition}"
            yield Constraint(condition, told)
        if text := str(more.get(_TEXT_TYPE, "")):
            size = text.partition("(")[2].rstrip(")")
            told = f"column {name} is longer than the table's {text}"
            yield Constraint(f"coalesce(char_length({path}) <= {size}, true)", told)
        if invariant := more.get("delta.invariants"):
            condition = json.loads(invariant)["expression"]["expression"]
            yield Constraint(condition, f"the table refuses its row: column {name}: {condition}")
        if isinstance(kind, dict) and kind["type"] == "struct":
            yield from _of_fields(kind, f"{path}.", needs_parents)


class Constraints:
    """The constraints of a sink's table, as they were last seen.

    ``describe`` gives what the table says of itself, None if there is no table yet.
    """

    def __init__(
        self,
        describe: "Callable[[SparkSession], Described | None]",
        now_s: Callable[[], float] = time.monotonic,
        *,
        needs_parents: bool = True,
    ) -> None:
        self._describe = describe
        self._needs_parents = needs_parents
        self._now_s = now_s
        self._until_s = 0.0
        self._schema: dict[str, Any] = {}
        self._found: list[Constraint] = []

    def refused(
        self, spark: "SparkSession", stored: "Callable[[], DataFrame]"
    ) -> "DataFrame | None":
        """Place and reason of the rows that break a constraint; None if the table has none.

        ``stored`` makes the rows with the table's columns; PARTITION may have any name there.
        """
        self._look_at_table(spark)
        return self._broken(stored()) if self._found else None

    def named(self, spark: "SparkSession", columns: Iterable[str]) -> list[str]:
        """Those of the columns at the top whose names are in a constraint of the table.

        A generated column and what it is made of count as well.
        """
        self._look_at_table(spark)
        fields = self._schema.get("fields", ())
        generated = [(one["name"], one["metadata"].get(_MADE_BY[0])) for one in fields]
        texts = [one.condition for one in self._found]
        texts += [f"{name} {made}" for name, made in generated if made]
        whole = "\n".join(texts).lower()
        return [one for one in columns if quoted(one)[1:-1].lower() in whole]

    def _look_at_table(self, spark: "SparkSession") -> None:
        """Ask the table what it says of itself, if the last answer is old."""
        now_s = self._now_s()
        if now_s < self._until_s:
            return
        described = self._describe(spark)
        self._until_s = now_s + ASK_AGAIN_S if described else 0.0
        self._schema, properties = described or ({}, {})
        self._found = []
        if described:
            self._found = constraints_of(
                self._schema, properties, needs_parents=self._needs_parents
            )

    def _broken(self, rows: "DataFrame") -> "DataFrame | None":
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as f

        if not {TOPIC, PARTITION, OFFSET} <= set(rows.columns):
            return None
        whole = self._completed(rows)
        reason: Column | None = None
        for one in (*self._found, *self._generated(rows)):
            is_kept = f.coalesce(f.expr(one.condition).cast("boolean"), f.lit(False))
            try:
                whole.select(is_kept)
            except AnalysisException:
                continue
            told = f.lit(f"{VALUE}{one.told}"[:MAX_CHARS])
            reason = f.when(~is_kept, told) if reason is None else reason.when(~is_kept, told)
        if reason is None:
            return None
        found = whole.select(TOPIC, PARTITION, OFFSET, reason.alias(WHY))
        return found.where(f.col(WHY).isNotNull())

    def _completed(self, rows: "DataFrame") -> "DataFrame":
        """The rows with the table's other columns."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        there = ByName((one, True) for one in rows.columns)
        types = StructType.fromJson(self._schema)
        added = {}
        for one in types.fields:
            if there.get(one.name) is None:
                made = next((one.metadata[by] for by in _MADE_BY if by in one.metadata), None)
                value = f.lit(None) if made is None else f.expr(made)
                added[one.name] = value.cast(one.dataType)
        return rows.withColumns(added)

    def _generated(self, rows: "DataFrame") -> Iterator[Constraint]:
        """Columns that the table makes of others, if rows have them all the same."""
        there = ByName((one, True) for one in rows.columns)
        for one in self._schema["fields"]:
            made = one["metadata"].get(_MADE_BY[0])
            if made and there.get(one["name"]):
                told = f"column {one['name']} isn't what the table makes of the others: {made}"
                yield Constraint(f"{quoted(one['name'])} <=> ({made})", told)
