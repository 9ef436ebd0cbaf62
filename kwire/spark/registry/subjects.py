"""The newest schema of each subject, for the driver: asked for again after some seconds.

While the registry doesn't answer, the last known schema is used. Without one, the batch fails,
because no row can be made without knowing its columns.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from kwire.spark.registry.client import (
    RegisteredSchema,
    Registry,
    RegistryAway,
    RegistrySettings,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Newest:
    """A subject's newest schema, and the texts of the schemas that it uses, by name."""

    schema: RegisteredSchema
    used: tuple[tuple[str, str], ...]


class AsksForNewest(Protocol):
    """The part of a registry that this module needs."""

    def newest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject; RegistryError."""

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """The schemas that this schema uses; RegistryError."""


class Subjects:
    """The newest schemas of a registry's subjects."""

    def __init__(self, registry: AsksForNewest, now_s: Callable[[], float] = time.monotonic):
        self._registry = registry
        self._now_s = now_s
        self._known: dict[str, tuple[float, Newest]] = {}

    def newest(self, subject: str, max_age_s: float) -> Newest:
        """The newest schema, at most ``max_age_s`` old if the registry answers; RegistryError."""
        known = self._known.get(subject)
        if known is not None and self._now_s() - known[0] < max_age_s:
            return known[1]
        try:
            schema = self._registry.newest(subject)
            found = known[1] if known is not None else None
            if found is None or found.schema != schema:
                used = self._registry.referenced(schema)
                texts = tuple((name, one.text) for name, one in used.items())
                found = Newest(schema, texts)
        except RegistryAway as error:
            if known is None:
                raise
            logger.warning("subject %s stays at version %d: %s", subject, _version(known), error)
            found = known[1]
        self._known[subject] = (self._now_s(), found)
        return found


def _version(known: tuple[float, Newest]) -> int:
    return known[1].schema.version


@lru_cache(maxsize=16)
def subjects_of(settings: RegistrySettings) -> Subjects:
    """The known subjects of a registry in this process."""
    return Subjects(Registry(settings))
