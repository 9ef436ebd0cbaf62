"""A schema registry: parses schemas, decides changes, has them written, one after the other.

Rules:

- Schemas are parsed and compared in threads, before the change has its turn: a schema that takes
  long delays nobody else's. What the decision rests on is looked at again in its turn.
- A change is decided on a state that has every record which was written, and is answered when its
  own records are part of the state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.registry import changes, parsing
from kwire.registry.changes import Registration
from kwire.registry.compatibility import Level
from kwire.registry.journal import Journal
from kwire.registry.names import split_subject
from kwire.registry.records import (
    AVRO,
    MAX_NUMBER,
    InvalidRecord,
    RegistryRecord,
    Schema,
    SchemaValue,
    more_of,
    references_of,
)
from kwire.registry.refusals import Refused, incompatible, invalid_schema, no_schema, no_subject
from kwire.registry.schema_types.parsed import MAX_REFERENCES
from kwire.registry.state import IMPORT, RegistryState, mark

THREADS = 2
IDENTIFIED_AT_ONCE = 200
"""Schemas of another registry that a thread makes canonical in one go."""
MAX_MORE_CHARS = 256 << 10
"""Of a schema's metadata and rules, as JSON."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a decision on compatibility rests on."""

    level: str
    versions: tuple[SchemaValue, ...]


class Registry:
    """The registry over a journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._threads = ThreadPool(THREADS)
        self._turn = trio.Lock()

    @property
    def state(self) -> RegistryState:
        """What the registry has."""
        return self.journal.state

    async def register(self, subject: str, body: Mapping[str, Any], *, normalize: bool) -> int:
        """Make a schema the newest version of a subject, unless it is one; its id. Refused."""
        asked = _registration(subject, body)
        await self.journal.ready()
        changes.check_may_register(self.state, asked)
        known = self._find(asked.schema, subject)
        if not self._has_to_normalize(subject, normalize):
            value = changes.registered(self.state, asked, known)
            if value is not None:
                return value.id
        tree = parsing.tree_of(self.state, subject, asked.schema)
        schema = await self._canonical(tree, normalize=self._has_to_normalize(subject, normalize))
        asked = replace(asked, schema=schema)
        checked: _Basis | None = None
        while True:
            if changes.registered(self.state, asked, self._find(schema, subject)) is None:
                basis = self._basis(subject)
                if checked != basis:
                    await self._check(subject, schema, basis)
                    checked = basis
            number = await self._register(asked, checked)
            if number is not None:
                return number

    async def _register(self, asked: Registration, checked: _Basis | None) -> int | None:
        """Write the version; None if the subject has changed since it was checked."""
        async with self._turn:
            await self._prepare()
            changes.check_may_register(self.state, asked)
            known = self._find(asked.schema, asked.subject)
            value = changes.registered(self.state, asked, known)
            if value is not None:
                return value.id
            if checked != self._basis(asked.subject):
                return None
            records = changes.register(self.state, asked, known)
            await self.journal.append(records)
            written = records[-1].value
            assert isinstance(written, SchemaValue)
            context, _ = split_subject(asked.subject)
            assert self.state.schema(context, written.id) is not None, "a record was not applied"
            self.state.identify(context, written.id, mark(asked.schema))
            return written.id

    async def look_up(
        self, subject: str, body: Mapping[str, Any], *, normalize: bool, deleted: bool
    ) -> SchemaValue:
        """The version of a subject that is this schema; Refused (40401, 40403)."""
        await self.journal.ready()
        await self._identify()
        if not self.state.versions(subject, deleted=deleted):
            raise no_subject(subject)
        schema = _registration(subject, body).schema
        known = self._find(schema, subject)
        if known is None or self._has_to_normalize(subject, normalize):
            tree = parsing.tree_of(self.state, subject, schema)
            normalizes = self._has_to_normalize(subject, normalize)
            known = self._find(await self._canonical(tree, normalize=normalizes), subject)
        for value in reversed(self.state.versions(subject, deleted=deleted)):
            if value.id == known:
                return value
        raise no_schema()

    async def problems(
        self,
        subject: str,
        body: Mapping[str, Any],
        earlier: Sequence[SchemaValue],
        *,
        normalize: bool,
    ) -> list[str]:
        """Why a schema may not follow these versions, by the subject's level; Refused (42201)."""
        schema = _registration(subject, body).schema
        tree = parsing.tree_of(self.state, subject, schema)
        if self._has_to_normalize(subject, normalize):
            schema = await self._canonical(tree, normalize=True)
        return await self._problems(subject, schema, self.state.level(subject), earlier)

    async def in_thread(self, function: Callable[..., _T], *arguments: object) -> _T:
        """The result of work on schemas, which a thread does."""
        return await self._threads.run(function, *arguments)

    async def change(
        self, decide: Callable[[RegistryState], tuple[_T, list[RegistryRecord]]]
    ) -> _T:
        """Decide in turn, and write the records; the answer. Refused, also by ``decide``."""
        async with self._turn:
            await self._prepare()
            answer, records = decide(self.state)
            await self.journal.append(records)
            return answer

    async def _prepare(self) -> None:
        await self.journal.catch_up()
        await self._identify()

    async def _identify(self) -> None:
        """Find the canonical texts of schemas that another process has stored."""
        while found := list(self.state.unidentified())[:IDENTIFIED_AT_ONCE]:
            trees = []
            for context, number in found:
                schema = self.state.schema(context, number)
                assert schema is not None
                subject = self.state.places(context, number)[0].subject
                trees.append(_tree_or_alone(self.state, subject, schema))
            texts = await self._threads.run(_canonical_texts, trees)
            for (context, number), tree, text in zip(found, trees, texts, strict=True):
                self.state.identify(context, number, mark(replace(tree.schema, text=text)))

    def _find(self, schema: Schema, subject: str) -> int | None:
        return self.state.find(split_subject(subject)[0], mark(schema))

    def _has_to_normalize(self, subject: str, asked: bool) -> bool:
        return asked or self.state.normalizes(subject)

    def _basis(self, subject: str) -> _Basis:
        level = "NONE" if self.state.mode(subject) == IMPORT else self.state.level(subject)
        return _Basis(level, tuple(self.state.versions(subject)))

    async def _canonical(self, tree: parsing.SchemaTree, *, normalize: bool) -> Schema:
        text = await self._threads.run(_text, tree, normalize)
        return replace(tree.schema, text=text)

    async def _check(self, subject: str, schema: Schema, basis: _Basis) -> None:
        found = await self._problems(subject, schema, basis.level, basis.versions)
        if found:
            raise incompatible(subject, found)

    async def _problems(
        self, subject: str, schema: Schema, level: str, earlier: Sequence[SchemaValue]
    ) -> list[str]:
        new = parsing.tree_of(self.state, subject, schema)
        checked = earlier if Level(level).is_transitive else earlier[-1:]
        old = {one.version: _tree_or_alone(self.state, one.subject, one.schema) for one in checked}
        return await self._threads.run(parsing.problems, Level(level), new, old)


def _registration(subject: str, body: Mapping[str, Any]) -> Registration:
    """What a request's body asks for; Refused (42201)."""
    kind, text = body.get("schemaType") or AVRO, body.get("schema")
    if not isinstance(kind, str) or not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    try:
        references = references_of(body)
        more = more_of(body, "metadata", "ruleSet")
    except InvalidRecord as error:
        raise invalid_schema(str(error)) from error
    if len(references) > MAX_REFERENCES or len(more) > MAX_MORE_CHARS:
        raise invalid_schema(
            f"it has more than {MAX_REFERENCES} references, or more than {MAX_MORE_CHARS >> 10} "
            "KiB of metadata and rules"
        )
    number, version = _number(body, "id"), _number(body, "version")
    return Registration(subject, Schema(kind, text, references, more), number, version)


def _number(body: Mapping[str, Any], name: str) -> int | None:
    """An id or version that a client gives; 0 and -1 stand for none."""
    found = body.get(name)
    if found is None or found == -1 or (found == 0 and name == "version"):
        return None
    if type(found) is not int or not 0 <= found <= MAX_NUMBER:
        raise invalid_schema(f"{name} is no number")
    return found


def _text(tree: parsing.SchemaTree, normalize: bool) -> str:
    parsed = parsing.parse_tree(tree)
    return parsed.normalized if normalize else parsed.canonical


def _canonical_texts(trees: Sequence[parsing.SchemaTree]) -> list[str]:
    return [parsing.canonical_text(tree) for tree in trees]


def _tree_or_alone(state: RegistryState, subject: str, schema: Schema) -> parsing.SchemaTree:
    """A stored schema with what it refers to, or alone if that is gone."""
    try:
        return parsing.tree_of(state, subject, schema)
    except Refused:
        return parsing.SchemaTree(schema)
