"""The schemas of each subject, newest first, for the driver: asked for again after some seconds.

A version's text never changes, so each is fetched once. While the registry doesn't answer, the last
known schemas are used. Without one, the batch fails, because no row can be made without knowing its
columns.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from kwire.schemas.registry import (
    NoSuchSchema,
    RegisteredSchema,
    Registry,
    RegistryAway,
    RegistrySettings,
)

logger = logging.getLogger(__name__)


AWAY_S = 10.0
"""How long a registry that is away isn't asked again: each question may take many seconds."""

MOST_OLDER = 50
"""How many versions before the newest one are looked at, so that a start takes seconds at most."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject, and the texts of the schemas that it uses, by name."""

    schema: RegisteredSchema
    used: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Newest(Version):
    """A subject's newest version, and those before it, newest first."""

    older: tuple[Version, ...] = ()
    made: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """What others have made of these versions, kept until there is another one."""

    @property
    def versions(self) -> tuple[Version, ...]:
        """All of them, newest first, none with others in it: hashing one takes no longer then."""
        return (Version(self.schema, self.used), *self.older)


class AsksForNewest(Protocol):
    """The part of a registry that this module needs."""

    def newest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; RegistryError."""

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending; RegistryError."""

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject; RegistryError."""

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """The schemas that this schema uses; RegistryError."""


class Subjects:
    """The newest schemas of a registry's subjects."""

    def __init__(self, registry: AsksForNewest, now_s: Callable[[], float] = time.monotonic):
        self._registry = registry
        self._now_s = now_s
        self._known: dict[str, tuple[float, Newest]] = {}
        self._back_s = float("-inf")

    def newest(self, subject: str, max_age_s: float) -> Newest:
        """The newest schema, at most ``max_age_s`` old if the registry answers; RegistryError.

        With 0 it is asked for now: a record's schema is registered before the record is written, so
        all versions of the records that are there are known then.
        """
        known = self._known.get(subject)
        if known is not None and self._now_s() < max(known[0] + max_age_s, self._back_s):
            return known[1]
        try:
            schema = self._registry.newest(subject)
            found = known[1] if known is not None else None
            if found is None or found.schema != schema:
                version = self._version(schema)
                found = Newest(version.schema, version.used, self._older(subject, schema, found))
        except RegistryAway as error:
            if known is None:
                raise
            number = known[1].schema.version
            logger.warning("subject %s stays at version %d: %s", subject, number, error)
            found = known[1]
            self._back_s = self._now_s() + AWAY_S
        self._known[subject] = (self._now_s(), found)
        return found

    def known(self, subject: str) -> Newest | None:
        """The newest schema as it was last asked for; None if it never was."""
        known = self._known.get(subject)
        return None if known is None else known[1]

    def _version(self, schema: RegisteredSchema) -> Version:
        used = self._registry.referenced(schema)
        return Version(schema, tuple((name, one.text) for name, one in used.items()))

    def _older(
        self, subject: str, newest: RegisteredSchema, known: Newest | None
    ) -> tuple[Version, ...]:
        """The versions before the newest one; one that was deleted meanwhile is left out."""
        fetched = {one.schema.version: one for one in known.versions} if known is not None else {}
        numbers = [one for one in self._registry.versions(subject) if one < newest.version]
        found = []
        for number in sorted(numbers, reverse=True)[:MOST_OLDER]:
            try:
                version = fetched.get(number)
                found.append(version or self._version(self._registry.version(subject, number)))
            except NoSuchSchema:
                continue
        return tuple(found)


@lru_cache(maxsize=16)
def subjects_of(settings: RegistrySettings) -> Subjects:
    """The known subjects of a registry in this process."""
    return Subjects(Registry(settings))
