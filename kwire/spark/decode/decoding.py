"""The interface between Python workers and a format: a plan, which Spark ships, and its decoder.

A plan is small and hashable: a worker process makes its decoder once and keeps it over tasks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kwire.spark.decode.spark_types import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Decoding = Callable[[DataFrame, bool], DataFrame]
    """Makes the rows of a batch's records, without the reasons of errors or with them."""

Row = dict[str, Any]

Unfit = tuple[tuple[str, tuple[tuple[Place, str], ...]], ...]
"""Topics, and the places where their values can't be in a table with those of other topics."""


Respelled = tuple[tuple[str, tuple[tuple[Place, str, str], ...]], ...]
"""Topics, and their fields that are spelled otherwise in the table: where, and both names."""


class Decoder(Protocol):
    """Makes columns of values; lives as long as its worker process."""

    def row(self, topic: str, value: bytes) -> Row:
        """The columns of a value, as pyarrow takes them; any exception: it can't be decoded."""


class Plan(Protocol):
    """How the values of a batch are decoded."""

    @property
    def row_type(self) -> str:
        """The struct of the columns: a type of ``spark_types`` as JSON."""

    @property
    def unfit(self) -> Unfit:
        """Where values of topics have types that the columns haven't."""

    @property
    def respelled(self) -> Respelled:
        """Where values of topics have the columns' names with other letters, by case."""

    def decoder(self) -> Decoder:
        """Make the decoder; called once in each worker process."""

    def __hash__(self) -> int: ...
