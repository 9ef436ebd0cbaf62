"""Confluent's REST API, as an ASGI application.

Rules:

- A path is split before its parts are decoded, so a subject may have a slash (``%2F``).
- ``/contexts/.other/…`` is the same as ``/…`` with subjects of that context.
- An answer is JSON of the type that the client accepts, by default
  ``application/vnd.schemaregistry.v1+json``. An error is ``{"error_code": …, "message": …}``.
- A body has to be of one of these types, or of none: a form of another web page is of neither, so
  no page can make a browser change anything here.
- Lists are cut at ``MOST_LISTED``, and those of whole schemas at ``MOST_SCHEMAS``; ``offset`` and
  ``limit`` give the rest.
- A list of whole schemas is made piece by piece, while its client reads it: the memory has no whole
  one, and making a piece holds up nobody.

Source: the API reference of Confluent's registry, and its resources (SubjectsResource, …).
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, unquote

from kwire.budget.slices import Slices
from kwire.registry import changes, reading
from kwire.registry.names import (
    ALL_CONTEXTS,
    join_subject,
    normal_scope,
    normal_subject,
    split_subject,
    subject_beside,
)
from kwire.registry.records import Body
from kwire.registry.refusals import Refused, invalid_schema, no_version
from kwire.registry.registry import Registry
from kwire.registry.rights import MODES, Asking, Right, Rights, question
from kwire.registry.schema_types.parsed import MAX_REFERENCES
from kwire.registry.schema_types.parsing import SCHEMA_TYPES
from kwire.registry.serialized import serialized
from kwire.web.guard import Receive, Scope, Send

V1_JSON = "application/vnd.schemaregistry.v1+json"
TYPES = (V1_JSON, "application/vnd.schemaregistry+json", "application/json")
BODY_TYPES = (*TYPES, "application/octet-stream")

_JSON = json.JSONEncoder(separators=(",", ":"))

MAX_BODY_BYTES = 4 << 20
"""A schema of the largest size whose characters are all escaped is smaller."""
MOST_BODY_PARTS = 200_000
"""The commas and opening brackets of a body. A schema of the largest size has fewer; a body made of
nothing else would hold up everybody while it is read."""
MOST_LISTED = 20_000
MOST_SCHEMAS = 1_000
MOST_ANSWER_CHARS = 16 << 20
PIECE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Ask:
    """A request: its path's parameters, query and body."""

    parts: tuple[str, ...]
    query: Mapping[str, str]
    body: Any
    context: str
    client: Asking
    rights: Rights

    @property
    def subject(self) -> str:
        """The subject that the path names first; Refused (42208)."""
        return normal_subject(self._in_context(self.parts[0]))

    @property
    def scope(self) -> str:
        """The subject or context whose settings the path names; "" without one."""
        return normal_scope(self._in_context(self.parts[0] if self.parts else ""))

    @property
    def number(self) -> int:
        """The id that the path names first; Refused (40403) for what is none."""
        text = self.parts[0]
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise Refused(404, "HTTP 404 Not Found")
        return int(text)

    @property
    def subject_of_id(self) -> str:
        """The subject, perhaps only a context, in which an id is looked for."""
        return join_subject(*split_subject(self._in_context(self.query.get("subject", ""))))

    @property
    def prefix(self) -> str:
        """The prefix of the subjects to list."""
        found = self.query.get("subjectPrefix")
        return self._in_context(found or "") if found or self.context else ALL_CONTEXTS

    @property
    def object(self) -> Body:
        """The body, which has to be an object."""
        if not isinstance(self.body, dict):
            raise Refused(422, "the body has to be a JSON object")
        return self.body

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is ``true``."""
        return self.query.get(name, "").lower() == "true"

    async def check(self, right: Right, *subjects: str) -> None:
        """Refuse the request unless the client has a right on these subjects."""
        await self.rights.check(self.client, *(question(right, one) for one in subjects))

    def listed(self, found: Any, most: int = MOST_LISTED) -> list[Any]:
        """The part of a list that ``offset`` and ``limit`` ask for."""
        limit = _integer(self.query, "limit", -1)
        return reading.page(
            found, _integer(self.query, "offset", 0), min(limit, most) if limit > 0 else most
        )

    def _in_context(self, name: str) -> str:
        is_qualified = name.startswith(":") or not self.context
        return name if is_qualified else f":{self.context}:{name}"


Answer: TypeAlias = Any
Handler: TypeAlias = Callable[[Registry, Ask], Awaitable[Answer]]


CLIENT = "kwire.client"
"""Where a scope of ASGI has who has logged in (``logins``)."""


class Text(str):
    """An answer that stands as it is, not as a text of JSON."""


class Bodies(NamedTuple):
    """A list that is answered piece by piece."""

    bodies: Iterable[Body]


def _integer(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else default


# Subjects


async def _subjects(registry: Registry, ask: Ask) -> Answer:
    deleted, only = ask.flag("deleted"), ask.flag("deletedOnly")
    found = registry.state.subjects(ask.prefix, deleted=deleted, only_deleted=only)
    return ask.listed(await ask.rights.readable(ask.client, found))


async def _versions(registry: Registry, ask: Ask) -> Answer:
    deleted, only = ask.flag("deleted"), ask.flag("deletedOnly")
    return ask.listed(
        reading.version_numbers(registry.state, ask.subject, deleted=deleted, only_deleted=only)
    )


async def _version(registry: Registry, ask: Ask) -> Answer:
    value = reading.find_version(
        registry.state, ask.subject, ask.parts[1], deleted=ask.flag("deleted")
    )
    body = reading.version_body(value)
    return await serialized(registry, ask.query.get("format", ""), ask.subject, value.schema, body)


async def _version_text(registry: Registry, ask: Ask) -> Answer:
    deleted = ask.flag("deleted")
    value = reading.find_version(registry.state, ask.subject, ask.parts[1], deleted=deleted)
    return Text(value.schema.text)


async def _users(registry: Registry, ask: Ask) -> Answer:
    return ask.listed(reading.users(registry.state, ask.subject, ask.parts[1]))


async def _register(registry: Registry, ask: Ask) -> Answer:
    normalize = ask.flag("normalize")
    return {"id": await registry.register(ask.subject, ask.object, normalize=normalize)}


async def _look_up(registry: Registry, ask: Ask) -> Answer:
    normalize, deleted = ask.flag("normalize"), ask.flag("deleted")
    value = await registry.look_up(ask.subject, ask.object, normalize=normalize, deleted=deleted)
    return reading.version_body(value)


async def _delete_subject(registry: Registry, ask: Ask) -> Answer:
    subject, permanent = ask.subject, ask.flag("permanent")
    return await registry.change(
        lambda state: changes.delete_subject(state, subject, permanent=permanent)
    )


async def _delete_version(registry: Registry, ask: Ask) -> Answer:
    subject, text, permanent = ask.subject, ask.parts[1], ask.flag("permanent")

    def decide(state: Any) -> Any:
        number = reading.version_number(text)
        if number is None:
            number = reading.find_version(state, subject, text, deleted=permanent).version
        return number, changes.delete_version(state, subject, number, permanent=permanent)

    return await registry.change(decide)


# Schemas


async def _schema(registry: Registry, ask: Ask) -> Answer:
    subject, number = ask.subject_of_id, ask.number
    body = reading.id_body(registry.state, number, subject, with_last=ask.flag("fetchMaxId"))
    schema = reading.find_schema(registry.state, number, subject)
    return await serialized(registry, ask.query.get("format", ""), subject, schema, body)


async def _schema_text(registry: Registry, ask: Ask) -> Answer:
    return Text(reading.find_schema(registry.state, ask.number, ask.subject_of_id).text)


async def _subjects_of_id(registry: Registry, ask: Ask) -> Answer:
    found = reading.subjects_of_id(
        registry.state, ask.number, ask.subject_of_id, deleted=ask.flag("deleted")
    )
    names = sorted({value.subject for value in found})
    return ask.listed(await ask.rights.readable(ask.client, names))


async def _versions_of_id(registry: Registry, ask: Ask) -> Answer:
    found = reading.subjects_of_id(
        registry.state, ask.number, ask.subject_of_id, deleted=ask.flag("deleted")
    )
    names = set(await ask.rights.readable(ask.client, [one.subject for one in found]))
    return ask.listed(
        [{"subject": one.subject, "version": one.version} for one in found if one.subject in names]
    )


async def _types(registry: Registry, ask: Ask) -> Answer:
    return list(SCHEMA_TYPES)


async def _schemas(registry: Registry, ask: Ask) -> Answer:
    deleted = ask.flag("deleted")
    names = registry.state.subjects(ask.prefix, deleted=deleted)
    found = reading.schemas(
        registry.state,
        await ask.rights.readable(ask.client, names),
        deleted=deleted,
        newest_only=ask.flag("latestOnly"),
    )
    values = ask.listed(found, MOST_SCHEMAS)
    if sum(len(value.schema.text) for value in values) > MOST_ANSWER_CHARS:
        text = f"more than {MOST_ANSWER_CHARS >> 20} MB; ask for fewer with limit or subjectPrefix"
        raise Refused(422, text)
    return Bodies(map(reading.version_body, values))


async def _contexts(registry: Registry, ask: Ask) -> Answer:
    return ask.listed(registry.state.contexts)


# Compatibility


async def _compatible(registry: Registry, ask: Ask) -> Answer:
    text = ask.parts[1]
    number = reading.version_number(text)
    try:
        earlier = [reading.find_version(registry.state, ask.subject, text)]
    except Refused:
        if number is not None:
            raise no_version(number) from None
        earlier = []  # whatever may be the first version
    return await _compatible_with(registry, ask, earlier)


async def _compatible_with_all(registry: Registry, ask: Ask) -> Answer:
    return await _compatible_with(registry, ask, registry.state.versions(ask.subject))


async def _compatible_with(registry: Registry, ask: Ask, earlier: list[Any]) -> Answer:
    normalize = ask.flag("normalize")
    found = await registry.problems(ask.subject, ask.object, earlier, normalize=normalize)
    body: Body = {"is_compatible": not found}
    return body | {"messages": found} if ask.flag("verbose") else body


# Settings


async def _config(registry: Registry, ask: Ask) -> Answer:
    with_default = ask.flag("defaultToGlobal")
    return reading.config_body(registry.state, ask.scope, with_default=with_default)


async def _set_config(registry: Registry, ask: Ask) -> Answer:
    scope, body = ask.scope, ask.object

    def decide(state: Any) -> Any:
        return body, changes.set_config(state, scope, body)

    return await registry.change(decide)


async def _delete_config(registry: Registry, ask: Ask) -> Answer:
    scope = ask.scope

    def decide(state: Any) -> Any:
        records = changes.delete_config(state, scope)
        return reading.config_body(state, scope, with_default=False), records

    return await registry.change(decide)


async def _mode(registry: Registry, ask: Ask) -> Answer:
    with_default = ask.flag("defaultToGlobal")
    return reading.mode_body(registry.state, ask.scope, with_default=with_default)


async def _set_mode(registry: Registry, ask: Ask) -> Answer:
    scope, mode, force = ask.scope, ask.object.get("mode"), ask.flag("force")

    def decide(state: Any) -> Any:
        return {"mode": mode}, changes.set_mode(state, scope, mode, force=force)

    return await registry.change(decide)


async def _delete_mode(registry: Registry, ask: Ask) -> Answer:
    scope = ask.scope

    def decide(state: Any) -> Any:
        records = changes.delete_mode(state, scope)
        return reading.mode_body(state, scope, with_default=False), records

    return await registry.change(decide)


async def _root(registry: Registry, ask: Ask) -> Answer:
    return {}


Check: TypeAlias = Callable[[Registry, Ask], Awaitable[None]]


async def _nothing(registry: Registry, ask: Ask) -> None:
    """Whoever is connected may ask this; lists have what the client may read."""


def _of_subject(right: Right) -> Check:
    """A right on the subject of the path, and to read the subjects that the body refers to."""

    async def check(registry: Registry, ask: Ask) -> None:
        await ask.check(right, ask.subject)
        if not ask.rights.are_asked:
            return
        found = ask.body.get("references") if isinstance(ask.body, dict) else None
        names = [one.get("subject") for one in found or () if isinstance(one, dict)]
        used = [subject_beside(ask.subject, one) for one in names if isinstance(one, str)]
        if len(used) > MAX_REFERENCES:
            raise invalid_schema(f"it has more than {MAX_REFERENCES} references")
        await ask.check(Right.READ, *used)

    return check


def _of_scope(right: Right) -> Check:
    """A right on the subject or context of the path, or on all subjects."""

    async def check(registry: Registry, ask: Ask) -> None:
        await ask.check(right, ask.scope)

    return check


async def _of_modes(registry: Registry, ask: Ask) -> None:
    await ask.rights.check(ask.client, MODES)


async def _of_all(registry: Registry, ask: Ask) -> None:
    await ask.check(Right.READ, "")


async def _of_id(registry: Registry, ask: Ask) -> None:
    """To read one of the subjects that have the id; Refused (40403) if there is no such id."""
    if not ask.rights.are_asked:
        return
    context, _ = split_subject(ask.subject_of_id)
    reading.find_schema(registry.state, ask.number, ask.subject_of_id)
    found, slices = set(), Slices()
    for value in registry.state.places(context, ask.number):
        found.add(question(Right.READ, value.subject))
        await slices.give_way()
    await ask.rights.check_any(ask.client, sorted(found))


READ, DELETE = _of_subject(Right.READ), _of_subject(Right.DELETE)
READ_SETTING, CONFIGURE = _of_scope(Right.READ), _of_scope(Right.CONFIGURE)

_CONFIG_ROUTES: Mapping[str, tuple[Check, Handler]] = {
    "GET": (READ_SETTING, _config),
    "PUT": (CONFIGURE, _set_config),
    "DELETE": (CONFIGURE, _delete_config),
}
_MODE_ROUTES: Mapping[str, tuple[Check, Handler]] = {
    "GET": (READ_SETTING, _mode),
    "PUT": (_of_modes, _set_mode),
    "DELETE": (_of_modes, _delete_mode),
}

ROUTES: Mapping[str, Mapping[str, tuple[Check, Handler]]] = {
    "": {"GET": (_nothing, _root)},
    "subjects": {"GET": (_nothing, _subjects)},
    "subjects/*": {"POST": (READ, _look_up), "DELETE": (DELETE, _delete_subject)},
    "subjects/*/versions": {
        "GET": (READ, _versions),
        "POST": (_of_subject(Right.REGISTER), _register),
    },
    "subjects/*/versions/*": {"GET": (READ, _version), "DELETE": (DELETE, _delete_version)},
    "subjects/*/versions/*/schema": {"GET": (READ, _version_text)},
    "subjects/*/versions/*/referencedby": {"GET": (READ, _users)},
    "schemas": {"GET": (_nothing, _schemas)},
    "schemas/types": {"GET": (_nothing, _types)},
    "schemas/ids/*": {"GET": (_of_id, _schema)},
    "schemas/ids/*/schema": {"GET": (_of_id, _schema_text)},
    "schemas/ids/*/subjects": {"GET": (_of_id, _subjects_of_id)},
    "schemas/ids/*/versions": {"GET": (_of_id, _versions_of_id)},
    "compatibility/subjects/*/versions": {"POST": (READ, _compatible_with_all)},
    "compatibility/subjects/*/versions/*": {"POST": (READ, _compatible)},
    "config": _CONFIG_ROUTES,
    "config/*": _CONFIG_ROUTES,
    "mode": _MODE_ROUTES,
    "mode/*": _MODE_ROUTES,
    "contexts": {"GET": (_of_all, _contexts)},
}
"""What a client needs, and what answers it, by path and method.

``*`` stands for a part that the client names."""


_PATTERNS: dict[int, list[tuple[list[str], Mapping[str, tuple[Check, Handler]]]]] = {}
"""The paths by the number of their parts."""
for _path, _handlers in ROUTES.items():
    _pattern = _path.split("/") if _path else []
    _PATTERNS.setdefault(len(_pattern), []).append((_pattern, _handlers))


def _split(raw_path: bytes) -> list[str]:
    """The decoded parts of a path."""
    text = raw_path.decode("latin-1").partition("?")[0].strip("/")
    return [unquote(part) for part in text.split("/")] if text else []


def _match(parts: list[str]) -> tuple[Mapping[str, tuple[Check, Handler]], tuple[str, ...]]:
    """The handlers of a path, and the parts that the client has named; Refused (404)."""
    for pattern, handlers in _PATTERNS.get(len(parts), ()):
        if all(one in ("*", part) for one, part in zip(pattern, parts, strict=True)):
            named = [part for one, part in zip(pattern, parts, strict=True) if one == "*"]
            return handlers, tuple(named)
    raise Refused(404, "HTTP 404 Not Found")


class RegistryApp:
    """The ASGI application over a registry."""

    def __init__(self, registry: Registry, rights: Rights | None = None) -> None:
        self._registry = registry
        self._rights = rights or Rights()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        status = 200
        try:
            answer = await self._answer(scope, receive)
        except Refused as error:
            status, answer = error.status, {"error_code": error.code, "message": error.message}
        accepted = _header(scope, b"accept")
        media_type = next((one for one in TYPES if one in accepted), V1_JSON)
        headers = [(b"content-type", media_type.encode())]
        if isinstance(answer, Bodies):
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await _send_pieces(answer.bodies, send)
            return
        text = answer if isinstance(answer, Text) else _JSON.encode(answer)
        content = text.encode(errors="replace")  # another registry may have stored half a character
        headers.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        parts, context = _split(scope["raw_path"]), ""
        if len(parts) > 2 and parts[0] == "contexts":
            context, parts = parts[1].strip(":"), parts[2:]
        handlers, named = _match(parts)
        found = handlers.get(scope["method"])
        if found is None:
            raise Refused(405, "HTTP 405 Method Not Allowed")
        check, handler = found
        body = await _body(scope, receive)
        await self._registry.journal.ready()
        client = scope.get(CLIENT) or Asking(peer_host=scope["client"][0])
        ask = Ask(named, _query(scope), body, context, client, self._rights)
        await check(self._registry, ask)
        return await handler(self._registry, ask)


async def _send_pieces(bodies: Iterable[Body], send: Send) -> None:
    piece = bytearray(b"[")
    separator = b""
    for body in bodies:
        piece += separator + _JSON.encode(body).encode()
        separator = b","
        if len(piece) >= PIECE_BYTES:
            await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
            piece.clear()
    await send({"type": "http.response.body", "body": bytes(piece) + b"]"})


def _header(scope: Scope, name: bytes) -> str:
    """The value of a header, empty without it."""
    found = next((value for one, value in scope["headers"] if one == name), b"")
    return str(found, "latin-1")


def _query(scope: Scope) -> Mapping[str, str]:
    query = scope["query_string"].decode("latin-1")
    return dict(parse_qsl(query, keep_blank_values=True)) if query else {}


async def _body(scope: Scope, receive: Receive) -> Any:
    """The JSON of the body, which the guard has read; None for an empty one; Refused."""
    content: bytes = (await receive()).get("body", b"")
    if not content:
        return None
    named = _header(scope, b"content-type").partition(";")[0].strip().lower()
    if named and named not in BODY_TYPES:
        raise Refused(415, f"HTTP 415 Unsupported Media Type: send {V1_JSON}")
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_BODY_PARTS:
        raise Refused(413, f"the body has more than {MOST_BODY_PARTS:,} commas and brackets")
    try:
        return json.loads(content, parse_constant=_no_json)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is no JSON") from None


def _no_json(text: str) -> float:
    """NaN and Infinity would be written as no JSON, which other registries can't read."""
    raise ValueError(text)
