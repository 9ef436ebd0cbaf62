"""The interface of sinks to a pipeline; the kinds are in ``kwire.spark.sinks``.

Rules:

- ``write`` may run again for the same batch after any failure, also of the driver. Afterwards the
  sink holds the batch's rows exactly once. A sink ensures that with the batch's ids and ranges: by
  a file's name, a table's transaction id, or a producer's transaction.
- The first action of ``write`` on ``rows`` reads all of them: no ``isEmpty``, ``take`` or ``limit``
  before it. The pipeline counts rows and dead letters in that action.
- ``write`` returns when the rows are durable and visible to readers. Only then are the batch's
  offsets committed to the consumer group.
- A sink that holds TOPIC, PARTITION and OFFSET of its rows, or has them in its files' names, says
  in ``held`` which ranges it holds: ``kwire pipeline verify`` compares them with the broker. A sink
  that keeps only the newest row of a key is compared by keys (``KeepsNewest``). A sink whose rows
  don't name their source records is compared by the offsets of its transactions
  (``CommitsOffsets``).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kwire.spark.batch import Batch, OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kwire.spark.changes import Truncate
    from kwire.spark.sinks.misfits import Misfit


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of one range that a sink holds: their offsets, ascending, doubles included.

    ``offsets`` is None if the sink knows the range but not its rows' offsets.
    """

    range: OffsetRange
    offsets: "Iterator[int] | None"
    rows: int


class OffsetsUnknown(RuntimeError):
    """A sink can't say which records it holds; the text says why, in one line."""


class Sink(Protocol):
    """A place for rows; see the module's rules."""

    def check(self) -> None:
        """Raise WrongSetting for options that can't work; called before Spark starts."""

    def open(self, spark: "SparkSession") -> None:
        """Prepare the sink, for example create a table; called once, before the first batch."""

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Write a batch's rows exactly once; see the module's rules."""

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The offsets that the sink holds, for ``verify``; OffsetsUnknown if they aren't known."""


@runtime_checkable
class InSteps(Protocol):
    """A sink whose ``write`` is two steps: the columns of its files or table, and their writing.

    Rows that are counted between the two steps needn't be copied, because they already have the
    form in which they are written. Nothing of a batch is visible before all its rows are written.
    """

    @property
    def used(self) -> "Collection[str]":
        """The columns of records that ``prepared`` uses: it does without the others."""

    def prepared(self, rows: "DataFrame", batch: Batch) -> "DataFrame":
        """The rows with the columns that are written."""

    def write_prepared(self, rows: "DataFrame", batch: Batch) -> None:
        """As ``Sink.write``, for rows from ``prepared``."""


@runtime_checkable
class FitsTable(Protocol):
    """A sink whose table keeps the types of its columns, whatever types later rows have."""

    def fit(self, spark: "SparkSession", schema: "StructType") -> "list[Misfit]":
        """Widen the table where its format can, and add columns; those that have to be converted.

        The pipeline converts them. A value that the table's type can't hold is a dead letter.
        """


@runtime_checkable
class HasConstraints(Protocol):
    """A sink whose table may refuse rows by constraints of its own."""

    def refused(
        self, spark: "SparkSession", rows: "Callable[[], DataFrame]", batch: Batch
    ) -> "DataFrame | None":
        """Place and reason (``constraints.WHY``) of rows that the table refuses.

        None if it has no constraint: then ``rows`` isn't called. The records of such rows are dead
        letters, because the table would refuse the whole batch.
        """


@runtime_checkable
class KnowsBatches(Protocol):
    """A sink that takes a batch once: what it has written of it stays as it is."""

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """Whether an earlier attempt has written rows of a batch; all of them, or some."""


@runtime_checkable
class KeepsNewest(Protocol):
    """A sink with one row for each key, that of the key's newest record."""

    keys: Sequence[str]
    """The columns whose values are the key."""
    marks_deleted: bool
    """Whether a tombstone leaves a row."""

    def table(self, spark: "SparkSession") -> "DataFrame":
        """The rows, with the keys and the columns of their places."""


@runtime_checkable
class KeepsValues(Protocol):
    """A sink whose rows keep the values that a record lacks, because they are unchanged."""

    def lacking(self, rows: "DataFrame") -> "DataFrame":
        """The rows that lack values which nothing surely has; of all rows of a batch, with CHANGE.

        Neither rows of the batch nor those of the sink.
        """


@runtime_checkable
class TakesTruncates(Protocol):
    """A sink in which a truncate deletes rows of its topic."""

    truncates: "Sequence[Truncate]"
    """The truncates of the batch that was written last."""


@runtime_checkable
class CommitsOffsets(Protocol):
    """A sink whose transactions commit, with the rows, up to which offset they have them."""

    def committed(
        self, pipeline: str, query_id: str, places: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The offset after the rows of each source partition for which one is committed."""
