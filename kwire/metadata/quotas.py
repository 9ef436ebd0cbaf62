"""Client quotas in the metadata: how much users, client ids and addresses may use.

Rules:

- A quota belongs to an entity: a user, a client id, a user with a client id, or an address. Each
  part of an entity may be the default, which counts for all users, client ids or addresses that
  have no quota of their own.
- An entity has at most one value for each key, greater than 0.
- A request alters each entity at most once. Each entity has a result of its own.
- The number of values is bounded, because every broker holds them all.

Source: ClientQuotaControlManager, ClientQuotasImage of Kafka; KIP-546, KIP-599, KIP-612.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCE_RATE = "producer_byte_rate"
FETCH_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
MUTATION_RATE = "controller_mutation_rate"
CONNECTION_RATE = "connection_creation_rate"

_WHOLE = {PRODUCE_RATE: ("LONG", 2.0**63), FETCH_RATE: ("LONG", 2.0**63)}
_WHOLE_OF_ADDRESSES = {CONNECTION_RATE: ("INT", 2.0**31 - 1)}
KEYS = frozenset({PRODUCE_RATE, FETCH_RATE, REQUEST_PERCENTAGE, MUTATION_RATE})
"""The keys of users and client ids."""

MOST_VALUES = 20_000
MOST_NAME_CHARACTERS = 1024
_FRACTION = 1e-6

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of a type and a name, ordered by type. The name None means the default."""

ClientQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
Match: TypeAlias = dict[str, str | None]

NONE: Mapping[str, float] = MappingProxyType({})


class ClientQuotaChanged(NamedTuple):
    """A change that sets the value of an entity's key, or removes it (None)."""

    entity: QuotaEntity
    key: str
    value: float | None


class Alteration(NamedTuple):
    """One entry of a request: new values for one entity. None removes a value."""

    entity: QuotaEntity
    values: Sequence[tuple[str, float | None]]


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of a request. If a type is named twice, the last name counts, as in Kafka."""
    return tuple(sorted({kind: canonical(kind, name) for kind, name in pairs}.items()))


def canonical(kind: str, name: str | None) -> str | None:
    """A name in the form in which it is stored: an address may be written in several ways."""
    if kind != IP or name is None:
        return name
    try:
        return str(ip_address(name))
    except ValueError:
        return name


class Alterations:
    """The decisions about one AlterClientQuotas request.

    - ``changes``: the changes to make.
    - ``results``: the error of each entity, or None.
    """

    def __init__(self, known: ClientQuotas) -> None:
        self.changes: list[ClientQuotaChanged] = []
        self.results: dict[QuotaEntity, KafkaError | None] = {}
        self._known = known
        self._room = MOST_VALUES - sum(map(len, known.values()))

    def decide_next(self, alteration: Alteration) -> None:
        """Decide about the next entity of the request.

        An entity that the request names twice gets an error. Its first alteration is made
        nevertheless, as in Kafka.
        """
        entity, values = alteration
        if entity in self.results or len(dict(values)) < len(values):
            text = f"Ignoring duplicate entity {_shown(entity)}"
            self.results[entity] = KafkaError(ErrorCode.INVALID_REQUEST, text)
            return
        try:
            whole = _checked(entity)
            changes = list(self._changes(entity, values, whole))
            room = self._room - sum(_growth(self._known, change) for change in changes)
            if room < 0 and room < self._room:
                text = f"The cluster holds at most {MOST_VALUES} values of client quotas"
                raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
            self._room = room
            self.changes += changes
            self.results[entity] = None
        except KafkaError as error:
            self.results[entity] = error.to_keep()

    def _changes(
        self,
        entity: QuotaEntity,
        values: Iterable[tuple[str, float | None]],
        whole: Mapping[str, tuple[str, float]],
    ) -> Iterator[ClientQuotaChanged]:
        known = self._known.get(entity, NONE)
        keys = _WHOLE_OF_ADDRESSES.keys() if whole is _WHOLE_OF_ADDRESSES else KEYS
        for key, value in values:
            if value is not None:
                problem = _problem(key, value, whole) if key in keys else f"Invalid {_KEY} {key}"
                if problem is not None:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
            if known.get(key) != value:
                yield ClientQuotaChanged(entity, key, value)


_KEY = "configuration key"


def _growth(known: ClientQuotas, change: ClientQuotaChanged) -> int:
    """The difference in the number of values after a change: 1, 0 or -1."""
    was_there = change.key in known.get(change.entity, NONE)
    return (change.value is not None) - was_there


def _shown(entity: QuotaEntity) -> str:
    """An entity as Kafka's messages show it."""
    pairs = (f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(pairs)}}})"


def _checked(entity: QuotaEntity) -> Mapping[str, tuple[str, float]]:
    """The keys of an entity whose values are whole numbers, with type and bound; KafkaError."""
    problem = _entity_problem(entity)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    return _WHOLE_OF_ADDRESSES if entity[0][0] == IP else _WHOLE


def _entity_problem(entity: QuotaEntity) -> str | None:
    """The reason why an entity is invalid; None if it is valid."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
        if name is not None and len(name) > MOST_NAME_CHARACTERS:
            return f"A name of more than {MOST_NAME_CHARACTERS} characters"
    names = dict(entity)
    if IP not in names:
        return None
    if len(names) > 1:
        return (
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId"
        )
    return _address_problem(names[IP])


def _address_problem(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        ip_address(name)
    except ValueError:
        return f"{name} is not a valid IP or resolvable host."
    return None


def _problem(key: str, value: float, whole: Mapping[str, tuple[str, float]]) -> str | None:
    """Why an entity can't have this value; None if it can."""
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    if math.isnan(value):
        return f"Quota {key} must be a number"
    if key not in whole:
        return None
    kind, most = whole[key]
    if value > most:
        return f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
    if math.fmod(value, 1.0) > _FRACTION:
        return f"{key} cannot be a fractional value."
    return None


def apply_quota(quotas: dict[QuotaEntity, Mapping[str, float]], change: ClientQuotaChanged) -> None:
    """Carry out a change."""
    values = dict(quotas.get(change.entity, NONE))
    if change.value is None:
        values.pop(change.key, None)
    else:
        values[change.key] = change.value
    if values:
        quotas[change.entity] = values
    else:
        quotas.pop(change.entity, None)


def quota_changes(quotas: ClientQuotas) -> list[ClientQuotaChanged]:
    """The changes that make these quotas out of none."""
    return [
        ClientQuotaChanged(entity, key, value)
        for entity, values in quotas.items()
        for key, value in values.items()
    ]


def quota_difference(old: ClientQuotas, new: ClientQuotas) -> Iterator[ClientQuotaChanged]:
    """The changes from ``old`` to ``new``."""
    for entity in {**old, **new}:
        before, after = old.get(entity, NONE), new.get(entity, NONE)
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                yield ClientQuotaChanged(entity, key, after.get(key))


class Filter(NamedTuple):
    """A filter for entities: for each type, an exact name or any name."""

    names: Match
    types: frozenset[str]
    is_strict: bool

    def matches(self, entity: Any) -> bool:
        """Whether an entity matches the filter."""
        found = dict(entity)
        if self.is_strict and len(found) != len(self.names) + len(self.types):
            return False
        return self.types <= found.keys() and all(
            kind in found and found[kind] == name for kind, name in self.names.items()
        )
