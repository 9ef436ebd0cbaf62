"""Names that a table takes for the same column, so that only one of them can be in a row."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from kwire.spark.decode.spark_types import SparkType, kind_of

T = TypeVar("T")


def keys_of(name: str) -> frozenset[str]:
    """What two names have in common if a table takes them for the same column.

    Iceberg and Delta compare names in lower case. Spark compares character by character, as Java's
    ``equalsIgnoreCase``: there the letter i without a dot is the same as one with it.
    """
    return frozenset((name.lower(), "".join(map(_folded, name))))


def _folded(character: str) -> str:
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower[0]


def named_once(fields: Iterable[dict[str, Any]], taken: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The columns whose names aren't taken, the first one of each name."""
    known = {key for name in taken for key in keys_of(name)}
    found = []
    for one in fields:
        keys = keys_of(one["name"])
        if not known & keys:
            found.append(one)
            known |= keys
    return found


def names_apart(spark_type: SparkType, taken: Iterable[str] = ()) -> SparkType:
    """A type with ``named_once`` at every depth; ``taken`` counts for its own fields alone."""
    if isinstance(spark_type, str):
        return spark_type
    if kind_of(spark_type) == "struct":
        kept = named_once(spark_type["fields"], taken)
        return spark_type | {"fields": [one | {"type": names_apart(one["type"])} for one in kept]}
    inner = [one for one in ("elementType", "keyType", "valueType") if one in spark_type]
    return spark_type | {one: names_apart(spark_type[one]) for one in inner}


class ByName(Generic[T]):
    """What is known of columns, found by every name that a table takes for theirs."""

    def __init__(self, columns: Iterable[tuple[str, T]]) -> None:
        self._exact = dict(columns)
        self._alike: dict[str, T] = {}
        for name, one in self._exact.items():
            for key in keys_of(name):
                self._alike.setdefault(key, one)

    def get(self, name: str) -> T | None:
        """That of the column which is spelled so, or else of one with the same name to a table."""
        if name in self._exact:
            return self._exact[name]
        return next((self._alike[key] for key in keys_of(name) if key in self._alike), None)
