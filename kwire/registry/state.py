"""What the records of ``_schemas`` add up to: subjects and versions, ids, settings, modes.

Rules:

- A schema has one id in a context, whatever subjects have it. An id belongs to one schema: a record
  that gives it to another one is left out, as Confluent's registry does.
- A version that is soft deleted keeps its number, and its id still names the schema. One that is
  deleted for good is gone, and so is its id, unless another version has it.
- A schema is found by its ``mark``: a digest of its text as it is stored, and of its canonical
  text, which is made elsewhere (``identify``). They differ only if another registry has stored it.
- ``used_by`` of a version are the versions that refer to it and aren't deleted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from kwire.registry.compatibility import Level
from kwire.registry.names import DEFAULT_CONTEXT, prefix_test, scopes, split_subject, subject_beside
from kwire.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    Key,
    RegistryRecord,
    Schema,
    SchemaValue,
)

READWRITE, READONLY, IMPORT = "READWRITE", "READONLY", "IMPORT"
DEFAULT_LEVEL = Level.BACKWARD


class Place(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


def mark(schema: Schema) -> bytes:
    """A digest that is equal for schemas of the same text."""
    parts = (schema.type, schema.text, schema.references, schema.more)
    return blake2b(repr(parts).encode(), digest_size=16).digest()


class _Context:
    """The ids of one context."""

    __slots__ = ("last_id", "marks", "marks_of", "places", "schemas", "unidentified")

    def __init__(self) -> None:
        self.schemas: dict[int, Schema] = {}
        self.places: dict[int, dict[Place, None]] = {}
        self.marks: dict[bytes, int] = {}
        self.marks_of: dict[int, tuple[bytes, ...]] = {}
        """The marks of each id, or deleting many ids would look at all marks for each."""
        self.unidentified: dict[int, None] = {}
        self.last_id = 0

    def note_mark(self, found: bytes, number: int) -> None:
        """Find an id by this mark, unless another id has it already."""
        if self.marks.setdefault(found, number) == number:
            self.marks_of[number] = tuple({*self.marks_of.get(number, ()), found})

    def forget_marks(self, number: int) -> None:
        """Find an id no more."""
        for found in self.marks_of.pop(number, ()):
            assert self.marks[found] == number, "a mark leads to the id that has noted it"
            del self.marks[found]


class RegistryState:
    """The state after some records; ``apply`` adds one."""

    def __init__(self) -> None:
        self.text_chars = 0
        """The characters of all schemas, with their metadata and rules."""
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        self._unordered: set[str] = set()
        """The subjects whose versions aren't in their order."""
        self._contexts: dict[str, _Context] = {DEFAULT_CONTEXT: _Context()}
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._modes: dict[str, str] = {}
        self._used_by: dict[Place, dict[Place, None]] = {}

    # Changes

    def apply(self, record: RegistryRecord) -> bool:
        """Add a record; False if it contradicts an earlier one and is left out."""
        key, value = record.key, record.value
        if key.keytype == SCHEMA:
            assert value is None or isinstance(value, SchemaValue)
            return self._put(Place(key.subject, key.version), value)
        body: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        if key.keytype == DELETE_SUBJECT:
            self._delete_until(key.subject, body.get("version"))
        elif key.keytype == CLEAR_SUBJECT:
            self._clear(key.subject)
        elif key.keytype == CONFIG:
            _set(self._configs, key.subject, body or None)
        elif key.keytype == MODE:
            _set(self._modes, key.subject, body.get("mode"))
        elif key.keytype == CONTEXT and value is not None:
            self._context(key.context)
        return True

    def identify(self, context: str, number: int, found: bytes) -> None:
        """Note the mark of an id's canonical text."""
        ids = self._context(context)
        ids.unidentified.pop(number, None)
        if number in ids.schemas:
            ids.note_mark(found, number)

    def _put(self, place: Place, value: SchemaValue | None) -> bool:
        ids = self._context(split_subject(place.subject)[0])
        if value is not None:
            known = ids.schemas.get(value.id)
            if known is not None and known.text != value.schema.text:
                return False
            if known is not None and known == value.schema:
                value = replace(value, schema=known)  # one text in memory for all its versions
        versions = self._subjects.setdefault(place.subject, {})
        old = versions.get(place.version)
        if old is not None:
            self._take_out(ids, place, old, keeps_id=value is not None and value.id == old.id)
        if value is None:
            versions.pop(place.version, None)
            if not versions:
                del self._subjects[place.subject]
                self._unordered.discard(place.subject)
            return True
        if old is None and versions and place.version < next(reversed(versions)):
            # Compaction leaves versions in the order in which they were last written. They are
            # ordered once, when somebody asks for them, not at each record.
            self._unordered.add(place.subject)
        versions[place.version] = value
        self._put_in(ids, place, value)
        return True

    def _put_in(self, ids: _Context, place: Place, value: SchemaValue) -> None:
        if value.id not in ids.schemas:
            ids.schemas[value.id] = value.schema
            ids.unidentified[value.id] = None
            ids.note_mark(mark(value.schema), value.id)
            self.text_chars += value.schema.chars
        ids.places.setdefault(value.id, {})[place] = None
        ids.last_id = max(ids.last_id, value.id)
        if not value.is_deleted:
            for one in value.schema.references:
                used = Place(subject_beside(place.subject, one.subject), one.version)
                self._used_by.setdefault(used, {})[place] = None

    def _take_out(self, ids: _Context, place: Place, old: SchemaValue, keeps_id: bool) -> None:
        for one in old.schema.references:
            used = Place(subject_beside(place.subject, one.subject), one.version)
            self._used_by.get(used, {}).pop(place, None)
            if not self._used_by.get(used):
                self._used_by.pop(used, None)
        places = ids.places[old.id]
        del places[place]
        if places or keeps_id:
            return
        del ids.places[old.id]
        self.text_chars -= ids.schemas.pop(old.id).chars
        ids.unidentified.pop(old.id, None)
        ids.forget_marks(old.id)

    def _delete_until(self, subject: str, version: object) -> None:
        last = version if isinstance(version, int) else 0
        for value in list(self._subjects.get(subject, {}).values()):
            if value.version <= last and not value.is_deleted:
                self._put(Place(subject, value.version), replace(value, is_deleted=True))

    def _clear(self, scope: str) -> None:
        for subject in [one for one in self._subjects if scope in scopes(one)]:
            for value in list(self._subjects[subject].values()):
                if value.is_deleted:
                    self._put(Place(subject, value.version), None)

    def _context(self, name: str) -> _Context:
        return self._contexts.setdefault(name or DEFAULT_CONTEXT, _Context())

    # Subjects

    @property
    def contexts(self) -> list[str]:
        """The names of all contexts."""
        return sorted(self._contexts)

    def subjects(
        self, prefix: str, *, deleted: bool = False, only_deleted: bool = False
    ) -> list[str]:
        """The subjects with a prefix that have such a version."""
        is_listed = prefix_test(prefix)
        found: Iterable[str] = filter(is_listed, self._subjects)
        if only_deleted or not deleted:
            found = (one for one in found if self._has_version(one, is_deleted=only_deleted))
        return sorted(found)

    def _has_version(self, subject: str, *, is_deleted: bool) -> bool:
        return any(value.is_deleted == is_deleted for value in self._subjects[subject].values())

    def versions(
        self, subject: str, *, deleted: bool = False, only_deleted: bool = False
    ) -> list[SchemaValue]:
        """The versions of a subject, the oldest first; with ``deleted``, soft deleted ones too."""
        if subject in self._unordered:
            self._unordered.discard(subject)
            self._subjects[subject] = dict(sorted(self._subjects[subject].items()))
        return [
            value
            for value in self._subjects.get(subject, {}).values()
            if (value.is_deleted if only_deleted else deleted or not value.is_deleted)
        ]

    def version(self, place: Place) -> SchemaValue | None:
        """A version, be it soft deleted."""
        return self._subjects.get(place.subject, {}).get(place.version)

    def values(self) -> Iterator[SchemaValue]:
        """All versions of all subjects."""
        for versions in self._subjects.values():
            yield from versions.values()

    @property
    def subject_count(self) -> int:
        """How many subjects there are."""
        return len(self._subjects)

    def used_by(self, place: Place) -> list[Place]:
        """The versions that refer to this one."""
        return list(self._used_by.get(place, ()))

    # Ids

    def schema(self, context: str, number: int) -> Schema | None:
        """The schema with this id."""
        ids = self._contexts.get(context)
        return None if ids is None else ids.schemas.get(number)

    def places(self, context: str, number: int) -> list[SchemaValue]:
        """The versions with this id, be they soft deleted."""
        ids = self._contexts.get(context)
        found = ids.places.get(number, {}) if ids is not None else {}
        return [self._subjects[place.subject][place.version] for place in found]

    def find(self, context: str, *found: bytes) -> int | None:
        """The id of the schema with one of these marks."""
        ids = self._contexts.get(context)
        known = () if ids is None else (ids.marks.get(one) for one in found)
        return next((number for number in known if number is not None), None)

    def last_id(self, context: str) -> int:
        """The largest id that was given in a context."""
        ids = self._contexts.get(context)
        return 0 if ids is None else ids.last_id

    def unidentified(self) -> Iterable[tuple[str, int]]:
        """Contexts and ids whose canonical text isn't known yet."""
        return [
            (name, number) for name, ids in self._contexts.items() for number in ids.unidentified
        ]

    def has_context(self, name: str) -> bool:
        """Whether a context is known."""
        return name in self._contexts

    # Settings

    def config(self, scope: str) -> Mapping[str, Any] | None:
        """The settings of a subject or context itself; "" stands for all."""
        return self._configs.get(scope)

    def level(self, subject: str) -> str:
        """The level of compatibility that counts for a subject."""
        found = self._nearest(subject, "compatibilityLevel")
        return found if found in tuple(Level) else DEFAULT_LEVEL

    def normalizes(self, subject: str) -> bool:
        """Whether the schemas of a subject are normalized without a client's asking."""
        return self._nearest(subject, "normalize") is True

    def own_mode(self, scope: str) -> str | None:
        """The mode of a subject or context itself; "" stands for all."""
        return self._modes.get(scope)

    def mode(self, subject: str) -> str:
        """The mode that counts for a subject."""
        found = (self._modes.get(scope) for scope in scopes(subject))
        return next((one for one in found if one is not None), READWRITE)

    @property
    def setting_count(self) -> int:
        """How many subjects and contexts have settings or a mode of their own."""
        return len(self._configs) + len(self._modes)

    def _nearest(self, subject: str, name: str) -> Any:
        found = (self._configs.get(scope, {}).get(name) for scope in scopes(subject))
        return next((one for one in found if one is not None), None)


def tombstone(place: Place) -> RegistryRecord:
    """The record that deletes a version for good."""
    return RegistryRecord(Key(SCHEMA, place.subject, place.version))


def _set(found: dict[str, Any], scope: str, value: Any) -> None:
    if value is None:
        found.pop(scope, None)
    else:
        found[scope] = value
