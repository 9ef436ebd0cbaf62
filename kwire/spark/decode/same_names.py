"""Names that a table takes for the same column, so that only one of them can be in a row."""

from collections.abc import Iterable
from typing import Any

from kwire.spark.decode.spark_types import SparkType, kind_of


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


def names_apart(of: SparkType, taken: Iterable[str] = ()) -> SparkType:
    """A type with ``named_once`` at every depth; ``taken`` counts for its own fields alone."""
    if isinstance(of, str):
        return of
    if kind_of(of) == "struct":
        kept = named_once(of["fields"], taken)
        return of | {"fields": [one | {"type": names_apart(one["type"])} for one in kept]}
    inner = [one for one in ("elementType", "keyType", "valueType") if one in of]
    return of | {one: names_apart(of[one]) for one in inner}
