"""Columns of a schema in the settings in which no record has had a value yet.

A format that finds columns by their names makes null of one that records don't have. So a name that
is misspelled, also by its case, is null in every row, and nothing fails. Nobody but the pipeline's
author can tell such a column from one whose values are rare. So it is told: once in the log, and in
``kwire pipeline status`` as long as no record has a value there. A column without which a record is
of no use is NOT NULL: then the records are dead letters.

Rules:

- Looked at are columns, and fields within structs, arrays and maps, in the rows without an error.
  Tombstones, deletes and events of no table don't count as records.
- What had a value once isn't looked at again. For the rest a batch is read with a few more
  expressions: each one until ``FIRST_RECORDS``, then one every ``AGAIN_S`` seconds.
- The log is told after ``FIRST_RECORDS``, or when a run ends.
- A field within a column without values isn't told beside it.

The file ``columns.json`` beside the checkpoints is replaced as a whole: ``seen`` lists what had a
value, ``empty`` has the number of records that were looked at for each other one, ``told`` lists
those of which the log was told.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from kwire.spark import rows as names
from kwire.spark.changes import is_of_a_row
from kwire.spark.decode.options import Options
from kwire.spark.decode.plans import given_plan, given_struct
from kwire.spark.decode.spark_types import SparkType, kind_of
from kwire.spark.sql import quoted
from kwire.spark.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

    _Test = Callable[[Column], Column]
    """A condition on a value."""

logger = logging.getLogger(__name__)

FILE = "columns.json"
FIRST_RECORDS = 1000
AGAIN_S = 60.0
_MOST_AT_A_TIME = 200
_MOST_TOLD = 10
_RECORDS = "records"


def named_columns(options: Options) -> dict[str, Any] | None:
    """The columns that the settings name and records have by name; None if there are none."""
    if options.format in ("json", "debezium"):
        return given_struct(options)
    if options.format == "avro" and options.registry is not None:
        plan = given_plan(options)
        found: dict[str, Any] | None = None if plan is None else json.loads(plan.row_type)
        return found
    return None


def places_of(spark_type: SparkType, path: str = "") -> Iterator[str]:
    """The columns of a struct and the fields within, as ``a.b``, ``a[].b`` and ``a{}.b``."""
    if isinstance(spark_type, str):
        return
    if kind_of(spark_type) == "struct":
        for one in spark_type["fields"]:
            place = f"{path}.{one['name']}" if path else str(one["name"])
            yield place
            yield from places_of(one["type"], place)
    elif kind_of(spark_type) == "array":
        yield from places_of(spark_type["elementType"], f"{path}[]")
    else:
        yield from places_of(spark_type["valueType"], f"{path}{{}}")


def empty_columns(storage: Storage) -> dict[str, int]:
    """What had no value yet, and in how many records; fields within others aren't beside them."""
    content = storage.read(FILE)
    return {} if content is None else _outermost(json.loads(content)["empty"])


def _outermost(places: Mapping[str, int]) -> dict[str, int]:
    def is_within(place: str, other: str) -> bool:
        return place.startswith((f"{other}.", f"{other}[", f"{other}{{"))

    return {
        place: records
        for place, records in places.items()
        if not any(is_within(place, other) for other in places)
    }


class ColumnValues:
    """Looks at a pipeline's batches for columns without values; the file is in ``storage``."""

    def __init__(
        self, storage: Storage, of: dict[str, Any], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        content = storage.read(FILE)
        found = {"seen": [], "empty": {}, "told": []} if content is None else json.loads(content)
        places = list(places_of(of))
        seen, told = set(found["seen"]), set(found["told"])
        self._storage = storage
        self._of = of
        self._now_s = now_s
        self._seen = [one for one in places if one in seen]
        self._empty = {one: found["empty"].get(one, 0) for one in places if one not in seen}
        self._told = [one for one in places if one in told]
        self._next_s = 0.0
        self._asked: list[str] = []
        self._observation: Observation | None = None

    def observed(self, rows: "DataFrame") -> "DataFrame":
        """A batch's rows without an error; what they have is known after the first action."""
        self._observation = None
        is_first = any(number < FIRST_RECORDS for number in self._empty.values())
        if not self._empty or not (is_first or self._now_s() >= self._next_s):
            return rows
        from pyspark.sql import Observation

        self._next_s = self._now_s() + AGAIN_S
        # Those first that were looked at least.
        self._asked = list(
            islice(sorted(self._empty, key=self._empty.__getitem__), _MOST_AT_A_TIME)
        )
        self._observation = Observation()
        return rows.observe(self._observation, *_counts(rows, self._of, self._asked))

    def note(self) -> None:
        """Take what the rows of the last ``observed`` had, after their first action."""
        if self._observation is None:
            return
        inner: Any = self._observation._jo
        self._observation = None
        if not inner.future().isCompleted():
            return
        found = inner.getAsJava()
        seen = [one for at, one in enumerate(self._asked) if found[f"c{at}"]]
        self.take(int(found[_RECORDS]), self._asked, seen)

    def take(self, records: int, asked: list[str], seen: list[str]) -> None:
        """Note the columns that were looked at in some records, and those that had values."""
        if not records:
            return
        for one in asked:
            self._empty[one] += records
        for one in seen:
            del self._empty[one]
        self._seen += seen
        if all(number >= FIRST_RECORDS for number in self._empty.values()):
            self.tell()
        self._save()

    def tell(self) -> None:
        """Tell the log of what had no value, unless it was told before."""
        found = {one: number for one, number in _outermost(self._empty).items() if number}
        new = [one for one in found if one not in self._told]
        if not new:
            return
        self._told += new
        self._save()
        shown = ", ".join(new[:_MOST_TOLD])
        more = f" and {len(new) - _MOST_TOLD} more" if len(new) > _MOST_TOLD else ""
        logger.warning(
            "no record has had a value in %s%s so far, of %s: is it called so in the records, also "
            "by its case? NOT NULL makes dead letters of records without it",
            shown,
            more,
            f"{min(found[one] for one in new):,}",
        )

    def _save(self) -> None:
        row = {"seen": self._seen, "empty": self._empty, "told": self._told}
        self._storage.write(FILE, json.dumps(row).encode())


class _Top:
    """The columns of rows, found as a struct's fields are."""

    def __getitem__(self, name: str) -> "Column":
        from pyspark.sql import functions as f

        return f.col(quoted(name))


def _counts(rows: "DataFrame", of: dict[str, Any], asked: list[str]) -> "list[Column]":
    """How many records there are, and whether any has a value in each of the places."""
    from pyspark.sql import functions as f

    is_record = ~f.col(names.TOMBSTONE)
    if names.CHANGE in rows.columns:
        is_record = is_record & is_of_a_row()
    top: Any = _Top()
    tests = dict(_tests(of, "", lambda test: test(top)))
    found = [
        f.coalesce(f.bool_or(is_record & tests[one]), f.lit(False)).alias(f"c{at}")
        for at, one in enumerate(asked)
    ]
    return [f.count_if(is_record).alias(_RECORDS), *found]


def _tests(
    spark_type: SparkType, path: str, holds: "Callable[[_Test], Column]"
) -> "Iterator[tuple[str, Column]]":
    """For each of ``places_of``, whether it has a value.

    ``holds`` says whether any value at the path passes a test.
    """
    from pyspark.sql import functions as f

    if isinstance(spark_type, str):
        return
    if kind_of(spark_type) == "struct":
        for one in spark_type["fields"]:
            place = f"{path}.{one['name']}" if path else str(one["name"])

            def within(test: "_Test", name: str = one["name"]) -> "Column":
                return holds(lambda value: test(value[name]))

            yield place, within(lambda value: value.isNotNull())
            yield from _tests(one["type"], place, within)
    elif kind_of(spark_type) == "array":

        def any_item(test: "_Test") -> "Column":
            return holds(lambda value: f.coalesce(f.exists(value, test), f.lit(False)))

        yield from _tests(spark_type["elementType"], f"{path}[]", any_item)
    else:

        def any_value(test: "_Test") -> "Column":
            return holds(
                lambda value: f.coalesce(f.exists(f.map_values(value), test), f.lit(False))
            )

        yield from _tests(spark_type["valueType"], f"{path}{{}}", any_value)
