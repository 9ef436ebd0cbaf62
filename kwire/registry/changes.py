"""The records that a request adds to ``_schemas``, and the rules by which it may.

Each function looks at the state and returns records, with the answer where it isn't plain. Nothing
changes before the records are written and applied. All raise Refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kwire.registry.compatibility import Level
from kwire.registry.names import DEFAULT_CONTEXT, split_subject
from kwire.registry.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MAX_NUMBER,
    MODE,
    SCHEMA,
    TENANT,
    Key,
    RegistryRecord,
    Schema,
    SchemaValue,
)
from kwire.registry.refusals import (
    Refused,
    deleted_subject,
    deleted_version,
    invalid_level,
    invalid_mode,
    invalid_schema,
    no_subject,
    no_version,
    not_permitted,
    reference_exists,
    too_large,
    undeleted_subject,
    undeleted_version,
)
from kwire.registry.state import IMPORT, READONLY, READWRITE, Place, RegistryState, tombstone

LEVELS = tuple(Level)
MODES = (READWRITE, READONLY, IMPORT)

MOST_SUBJECTS = 100_000
MOST_VERSIONS = 10_000
"""Of one subject."""
MOST_SETTINGS = 100_000
MOST_TEXT_CHARS = 256 << 20
"""Of all schemas together."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A schema that shall be a version of a subject.

    ``number`` and ``version`` are those that a client in mode IMPORT gives, or None.
    """

    subject: str
    schema: Schema
    number: int | None = None
    version: int | None = None


def check_may_register(state: RegistryState, asked: Registration) -> None:
    """Refuse what the subject's mode forbids."""
    mode = state.mode(asked.subject)
    if asked.number is not None and mode != IMPORT:
        raise not_permitted(f"Subject {asked.subject} is not in import mode")
    if asked.number is None and mode != READWRITE:
        _, name = split_subject(asked.subject)
        raise not_permitted(f"Subject {name} is not in read-write mode, but in mode {mode}")


def registered(state: RegistryState, asked: Registration, known: int | None) -> SchemaValue | None:
    """The version that the subject has of this schema already; ``known`` is the schema's id."""
    number = known if asked.number is None else asked.number
    if number is None or number != known or asked.version is not None:
        return None
    versions = state.versions(asked.subject)
    return next((value for value in reversed(versions) if value.id == number), None)


def register(state: RegistryState, asked: Registration, known: int | None) -> list[RegistryRecord]:
    """A new version; ``known`` is the id that the schema has in this context, None for a new one.

    The last record is the version's own. The caller has checked mode and compatibility.
    """
    context, _ = split_subject(asked.subject)
    number = known if asked.number is None else asked.number
    if number is None:
        number = state.last_id(context) + 1
    taken = state.schema(context, number)
    if taken is not None and number != known and taken != asked.schema:
        text = f"Overwrite new schema with id {number} in context {context} is not permitted."
        raise not_permitted(text)
    versions = state.versions(asked.subject, deleted=True)
    _check_room(state, asked, len(versions))
    version = _next_version(state, asked, versions)
    if number > MAX_NUMBER or version > MAX_NUMBER:
        # One that was imported may have the last; records with more are left out by readers.
        raise too_large(
            f"no id, or no version of subject {asked.subject}, is left after {MAX_NUMBER}"
        )
    records = []
    if not state.has_context(context):
        body = {"tenant": TENANT, "context": context}
        records.append(RegistryRecord(Key(CONTEXT, context=context), body))
    # Confluent's registry does the same: the version that is new takes the place of those.
    records += [
        tombstone(Place(asked.subject, value.version))
        for value in versions
        if value.is_deleted and value.id == number and value.version != version
    ]
    value = SchemaValue(asked.subject, version, number, taken or asked.schema)
    return [*records, RegistryRecord(Key(SCHEMA, asked.subject, version), value)]


def _next_version(state: RegistryState, asked: Registration, versions: list[SchemaValue]) -> int:
    following = versions[-1].version + 1 if versions else 1
    if asked.version is None or asked.version == following:
        return following
    if state.mode(asked.subject) != IMPORT:
        raise invalid_schema("Version is not one more than previous version")
    if state.version(Place(asked.subject, asked.version)) is not None:
        text = f"Overwrite version {asked.version} of subject {asked.subject} is not permitted."
        raise not_permitted(text)
    return asked.version


def _check_room(state: RegistryState, asked: Registration, versions: int) -> None:
    if versions >= MOST_VERSIONS:
        raise too_large(f"subject {asked.subject} has {versions} versions, which is the most")
    if state.subject_count >= MOST_SUBJECTS and not versions:
        raise too_large(f"the registry has {MOST_SUBJECTS} subjects, which is the most")
    if state.text_chars + asked.schema.chars > MOST_TEXT_CHARS:
        raise too_large(f"the schemas of the registry have {MOST_TEXT_CHARS >> 20} MB")


def delete_subject(
    state: RegistryState, subject: str, *, permanent: bool
) -> tuple[list[int], list[RegistryRecord]]:
    """Delete all versions; their numbers, and the records."""
    versions = state.versions(subject, deleted=True)
    if not versions:
        raise no_subject(subject)
    left = [value for value in versions if not value.is_deleted]
    if permanent and left:
        raise undeleted_subject(subject)
    if not permanent and not left:
        raise deleted_subject(subject)
    _check_not_read_only(state, subject)
    for value in versions if permanent else left:
        _check_unused(state, Place(subject, value.version))
    if permanent:
        numbers = [value.version for value in versions]
        return numbers, [tombstone(Place(subject, number)) for number in numbers]
    body = {"subject": subject, "version": versions[-1].version}
    record = RegistryRecord(Key(DELETE_SUBJECT, subject), body)
    return [value.version for value in left], [record, *_without_settings(state, subject)]


def delete_version(
    state: RegistryState, subject: str, version: int, *, permanent: bool
) -> list[RegistryRecord]:
    """Delete one version."""
    if not state.versions(subject, deleted=True):
        raise no_subject(subject)
    place = Place(subject, version)
    value = state.version(place)
    if value is None:
        raise no_version(version)
    if permanent and not value.is_deleted:
        raise undeleted_version(subject, version)
    if not permanent and value.is_deleted:
        raise deleted_version(subject, version)
    _check_not_read_only(state, subject)
    _check_unused(state, place)
    if permanent:
        return [tombstone(place)]
    record = RegistryRecord(Key(SCHEMA, subject, version), replace(value, is_deleted=True))
    is_last = len(state.versions(subject)) == 1
    return [record, *(_without_settings(state, subject) if is_last else ())]


def _check_not_read_only(state: RegistryState, subject: str) -> None:
    if state.mode(subject) != READONLY:
        return
    context, name = split_subject(subject)
    raise not_permitted(f"Subject {name} in context {context} is in read-only mode")


def _check_unused(state: RegistryState, place: Place) -> None:
    if state.used_by(place):
        raise reference_exists(*place)


def _without_settings(state: RegistryState, subject: str) -> list[RegistryRecord]:
    """The settings of a subject end with its last version."""
    records = []
    if state.own_mode(subject) is not None:
        records.append(RegistryRecord(Key(MODE, subject)))
    if state.config(subject) is not None:
        records.append(RegistryRecord(Key(CONFIG, subject)))
    return records


def set_config(state: RegistryState, scope: str, asked: Mapping[str, Any]) -> list[RegistryRecord]:
    """Change the level of compatibility, ``normalize``, or both; the rest stays."""
    unknown = [name for name in asked if name not in ("compatibility", "normalize")]
    if unknown:
        raise Refused(422, f"Unrecognized field: {unknown[0][:80]}")
    changed = dict(state.config(scope) or ({"subject": scope} if scope else {}))
    if "normalize" in asked:
        if not isinstance(asked["normalize"], bool | None):
            raise Refused(422, "normalize is true or false")
        changed["normalize"] = asked["normalize"]
    if asked.get("compatibility") is not None or "normalize" not in asked:
        given = asked.get("compatibility")
        level = given.upper() if isinstance(given, str) else ""
        if level not in LEVELS:
            raise invalid_level()
        changed["compatibilityLevel"] = level
    changed = {name: one for name, one in changed.items() if one is not None}
    _check_not_read_only(state, scope)
    _check_setting(state, scope)
    return [RegistryRecord(Key(CONFIG, scope), changed)]


def delete_config(state: RegistryState, scope: str) -> list[RegistryRecord]:
    """Return to the settings that count without own ones."""
    if scope and state.config(scope) is None:
        raise no_subject(scope)
    _check_not_read_only(state, scope)
    return [RegistryRecord(Key(CONFIG, scope))]


def set_mode(
    state: RegistryState, scope: str, asked: object, *, force: bool
) -> list[RegistryRecord]:
    """Change a mode. IMPORT needs a scope without subjects, or ``force``."""
    mode = asked.upper() if isinstance(asked, str) else ""
    if mode not in MODES:
        raise invalid_mode()
    record = RegistryRecord(
        Key(MODE, scope), {"subject": scope, "mode": mode} if scope else {"mode": mode}
    )
    _check_setting(state, scope)
    if mode != IMPORT or force or state.own_mode(scope) == IMPORT:
        return [record]
    if has_subjects(state, scope):
        raise not_permitted("Cannot import since found existing subjects")
    # What is soft deleted in there would keep its ids, which the imported schemas may have.
    body = {"subject": scope} if scope else {}
    return [RegistryRecord(Key(CLEAR_SUBJECT, scope), body), record]


def delete_mode(state: RegistryState, scope: str) -> list[RegistryRecord]:
    """Return to the mode that counts without an own one."""
    if scope and state.own_mode(scope) is None:
        raise no_subject(scope)
    return [RegistryRecord(Key(MODE, scope))]


def has_subjects(state: RegistryState, scope: str) -> bool:
    """Whether a subject, a context (``:.context:``) or, with "", any context has versions."""
    context, name = split_subject(scope)
    if scope and (name or context == DEFAULT_CONTEXT):
        return bool(state.versions(scope))
    return bool(state.subjects(scope or ":*:"))


def _check_setting(state: RegistryState, scope: str) -> None:
    is_new = state.config(scope) is None and state.own_mode(scope) is None
    if is_new and state.setting_count >= MOST_SETTINGS:
        raise too_large(f"{MOST_SETTINGS} subjects have settings of their own, which is the most")
