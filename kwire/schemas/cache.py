"""Schemas by id in a process of an executor, so that each is asked for once.

Executors fetch schemas themselves. The driver can't know the ids before the records are read, and
reading the batch twice would cost more than one question for each new schema and process.

Rules:

- A schema never changes under its id, so a schema that was found stays in the cache.
- An id that wasn't found is asked for again after ``RECHECK_S``, because it may be registered
  meanwhile.
- Garbage that begins with a zero byte may name any id. After ``MAX_MISSES`` unknown ids within
  ``RECHECK_S``, the registry isn't asked until that time is over.
- The same holds for a registry that doesn't answer, so that not every record waits for a timeout.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from kwire.schemas.registry import (
    NoSuchSchema,
    RegisteredSchema,
    Registry,
    RegistryAway,
    RegistryError,
    RegistrySettings,
)

RECHECK_S = 10.0
MAX_MISSES = 100
MAX_SCHEMAS = 10_000


class AsksById(Protocol):
    """The part of a registry that the cache needs."""

    def by_id(self, number: int) -> RegisteredSchema:
        """The schema with an id; RegistryError."""

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """The schemas that this schema uses; RegistryError."""


class SchemaCache:
    """Schemas by id with the schemas that they use; see the module's rules."""

    def __init__(self, registry: AsksById, now_s: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._now_s = now_s
        self._found: dict[int, tuple[RegisteredSchema, dict[str, RegisteredSchema]]] = {}
        self._missing: dict[int, tuple[float, RegistryError]] = {}
        self._away: tuple[float, RegistryError] | None = None

    def schema(self, number: int) -> tuple[RegisteredSchema, dict[str, RegisteredSchema]]:
        """A schema, and the schemas that it uses by name; RegistryError."""
        found = self._found.get(number)
        if found is None:
            found = self._ask(number)
            if len(self._found) >= MAX_SCHEMAS:
                self._found.pop(next(iter(self._found)))
            self._found[number] = found
        return found

    def _ask(self, number: int) -> tuple[RegisteredSchema, dict[str, RegisteredSchema]]:
        self._forget()
        if self._away is not None:
            raise self._away[1].with_traceback(None)  # or it would get longer each time
        if number in self._missing:
            raise self._missing[number][1].with_traceback(None)
        if len(self._missing) >= MAX_MISSES:
            raise NoSuchSchema(
                f"schema id {number} wasn't asked for: {MAX_MISSES} other ids of the last "
                f"{RECHECK_S:g} s are unknown"
            )
        try:
            schema = self._registry.by_id(number)
            return schema, self._registry.referenced(schema)
        except RegistryAway as error:
            self._away = (self._now_s() + RECHECK_S, error)
            raise
        except RegistryError as error:
            self._missing[number] = (self._now_s() + RECHECK_S, error)
            raise

    def _forget(self) -> None:
        """Forget failures that are old."""
        now_s = self._now_s()
        if self._away is not None and self._away[0] <= now_s:
            self._away = None
        if any(until_s <= now_s for until_s, _ in self._missing.values()):
            self._missing = {key: one for key, one in self._missing.items() if one[0] > now_s}


@lru_cache(maxsize=16)
def cache_of(settings: RegistrySettings) -> SchemaCache:
    """The cache of this process for a registry."""
    return SchemaCache(Registry(settings))
