"""Whether a schema may become the next version of a subject, by the subject's level.

BACKWARD: a reader with the new schema reads what was written with the old one. FORWARD: a reader
with the old one reads what is written with the new one. FULL: both. Without ``_TRANSITIVE`` the old
schema is the newest version, with it each of them. NONE: anything goes.
"""

from collections.abc import Mapping
from enum import StrEnum

from kwire.registry.schema_types.parsed import Incompatibility, ParsedSchema


class Level(StrEnum):
    """The levels of Confluent's registry."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all versions count, not only the newest one."""
        return self.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        """Whether the new schema has to read old data."""
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        """Whether old schemas have to read new data."""
        return self.startswith(("FORWARD", "FULL"))


def incompatibilities(new: ParsedSchema, old: ParsedSchema) -> list[Incompatibility]:
    """What a reader with the new schema can't read of data of the old one (BACKWARD).

    ``str`` of each is as a verbose answer has it. Raises TooComplex.
    """
    if new.type != old.type:
        text = f"a schema of type {new.type} can't read data of type {old.type}"
        return [Incompatibility("SCHEMA_TYPE_CHANGED", "/", text)]
    return new.unreadable_of(old)


def violations(level: Level, new: ParsedSchema, older: Mapping[int, ParsedSchema]) -> list[str]:
    """Why a schema can't follow the older ones, which are by their versions; empty if it can.

    The newest one that it doesn't fit is told, as Confluent's registry does: what is incompatible,
    then ``{oldSchemaVersion: …}``, ``{oldSchema: …}``, ``{compatibility: …}``. Raises TooComplex.
    """
    versions = sorted(older, reverse=True)
    for version in versions if level.is_transitive else versions[:1]:
        old = older[version]
        found = incompatibilities(new, old) if level.is_backward else []
        if level.is_forward:
            found += incompatibilities(old, new)
        if found:
            return [
                *map(str, found),
                f"{{oldSchemaVersion: {version}}}",
                f"{{oldSchema: '{old.canonical}'}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []
