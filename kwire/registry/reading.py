"""The answers to requests that change nothing, as JSON; pure functions, which raise Refused."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from kwire.registry.names import split_subject
from kwire.registry.records import MAX_NUMBER, Body, Schema, SchemaValue, described
from kwire.registry.refusals import (
    invalid_version,
    no_own_level,
    no_own_mode,
    no_schema,
    no_subject,
    no_version,
)
from kwire.registry.state import DEFAULT_LEVEL, READWRITE, Place, RegistryState

LATEST = ("latest", "-1")


def version_number(text: str) -> int | None:
    """The number that a path names, None for the latest; Refused (42202)."""
    if text in LATEST:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MAX_NUMBER):
        raise invalid_version(text[:80])
    return int(text)


def find_version(
    state: RegistryState, subject: str, text: str, *, deleted: bool = False
) -> SchemaValue:
    """A version of a subject; Refused (40401, 40402, 42202)."""
    number = version_number(text)
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise no_subject(subject)
    if number is None:
        return versions[-1]
    value = state.version(Place(subject, number))
    if value is None or (value.is_deleted and not deleted):
        raise no_version(number)
    return value


def find_schema(state: RegistryState, number: int, subject: str = "") -> Schema:
    """The schema with an id, in the context of ``subject``; Refused (40403)."""
    schema = state.schema(split_subject(subject)[0], number)
    if schema is None:
        raise no_schema(number)
    return schema


def version_body(value: SchemaValue) -> Body:
    """A version as answers have it."""
    body: Body = {"subject": value.subject, "version": value.version, "id": value.id}
    return body | schema_body(value.schema)


def schema_body(schema: Schema) -> Body:
    """A schema as answers have it."""
    return described(schema) | more_body(schema)


def more_body(schema: Schema) -> Body:
    """What clients see of a schema's other properties."""
    if schema.more == "{}":
        return {}
    more = json.loads(schema.more)
    return {name: more[name] for name in ("metadata", "ruleSet") if name in more}


def id_body(state: RegistryState, number: int, subject: str, *, with_last: bool) -> Body:
    """The answer for an id."""
    body = schema_body(find_schema(state, number, subject))
    return body | {"maxId": state.last_id(split_subject(subject)[0])} if with_last else body


def subjects_of_id(
    state: RegistryState, number: int, subject: str, *, deleted: bool
) -> list[SchemaValue]:
    """The versions that have an id."""
    find_schema(state, number, subject)
    context, name = split_subject(subject)
    return [
        value
        for value in state.places(context, number)
        if (deleted or not value.is_deleted) and (not name or value.subject == subject)
    ]


def version_numbers(
    state: RegistryState, subject: str, *, deleted: bool, only_deleted: bool
) -> list[int]:
    """The versions of a subject; Refused (40401)."""
    found = state.versions(subject, deleted=deleted, only_deleted=only_deleted)
    if not found:
        raise no_subject(subject)
    return [value.version for value in found]


def users(state: RegistryState, subject: str, text: str) -> list[int]:
    """The ids of the schemas that refer to a version."""
    value = find_version(state, subject, text, deleted=True)
    places = state.used_by(Place(subject, value.version))
    found = (state.version(place) for place in places)
    return sorted({one.id for one in found if one is not None})


def schemas(
    state: RegistryState, subjects: Iterable[str], *, deleted: bool, newest_only: bool
) -> Iterator[SchemaValue]:
    """The versions of these subjects."""
    for subject in subjects:
        versions = state.versions(subject, deleted=deleted)
        yield from versions[-1:] if newest_only else versions


def config_body(state: RegistryState, scope: str, *, with_default: bool) -> Body:
    """The settings of a subject or context, or of all (""); Refused (40408)."""
    own = state.config(scope)
    if own is None and scope and not with_default:
        raise no_own_level(scope)
    body = shown_config(own or {})
    if not scope or with_default:
        body.setdefault("compatibilityLevel", state.level(scope) if scope else DEFAULT_LEVEL)
    return body


def shown_config(own: Mapping[str, Any]) -> Body:
    """Settings as answers have them."""
    return {name: own[name] for name in ("compatibilityLevel", "normalize") if name in own}


def mode_body(state: RegistryState, scope: str, *, with_default: bool) -> Body:
    """The mode of a subject or context, or of all (""); Refused (40409)."""
    own = state.own_mode(scope)
    if own is None and scope and not with_default:
        raise no_own_mode(scope)
    return {"mode": own or (state.mode(scope) if scope else READWRITE)}


def page(found: Iterable[Any], offset: int, limit: int) -> list[Any]:
    """The part of a list that a client asks for."""
    return list(islice(found, max(offset, 0), max(offset, 0) + limit))
