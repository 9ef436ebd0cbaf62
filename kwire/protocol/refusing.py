"""The answer that refuses a request, or an element of one: it names what was asked, with an error.

Rules (``AbstractRequest.getErrorResponse`` of Kafka has the same for each API by hand):

- A field of an element has the value of the field of the same name in what was asked. If the
  elements that were asked are plain values, such as indexes of partitions, the value becomes the
  first field of its type.
- Elements are refused one by one if only they have error codes. If what is around them has one,
  that alone is set, unless ``every`` says that the elements are named, too.
- ``error_message`` is the text of the error. ``UNTOLD`` has what stands for something that isn't
  told.
- A request may name very many elements: they are made piece by piece.
"""

from collections.abc import Generator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from kwire.errors import KafkaError
from kwire.protocol.types import ARRAY, Field, Kind, Message, MessageType

PIECE = 64

CODES = ("error_code", "partition_error_code")

UNTOLD: Mapping[str, object] = {
    "base_offset": -1,
    "committed_leader_epoch": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "leader_epoch": -1,
    "log_start_offset": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "num_partitions": -1,
    "records": b"",
    "replication_factor": -1,
    "timestamp": -1,
}

RENAMED = {"partition_index": "partition"}
"""Fields of answers that have another name in requests, as in Fetch."""

Refusing: TypeAlias = Generator[int, None, Any]
"""Yields how many elements it makes next; returns what it has made."""


class _Array(NamedTuple):
    """An array of the answer, and the array in what was asked that names its elements."""

    name: str
    asked: str
    plan: "_Plan"


class _Plan(NamedTuple):
    """How an answer is made from what was asked."""

    answer: MessageType
    copied: tuple[tuple[str, str], ...]
    """The name of each field that is copied, here and in what was asked."""
    value: str | None
    """The field that is the element itself, if elements are plain values."""
    set: tuple[Field, ...]
    """Error code and message, and numbers that aren't told."""
    arrays: tuple[_Array, ...]


def refusing(
    asked: Message, answer: MessageType, error: KafkaError, version: int, *, every: bool = False
) -> Refusing:
    """The whole answer to a request."""
    plan = _plan(type(asked), answer, every)._replace(copied=())
    return (yield from _one(asked, plan, error, version))


def refusing_each(
    asked: Sequence[Any], kind: Any, answer: MessageType, error: KafkaError, version: int
) -> Refusing:
    """The answers to some elements of a request, which are of this type of message or value."""
    return (yield from _each(asked, _plan(kind, answer, False), error, version))


@cache
def elements(
    field: str, asked: MessageType, answer: MessageType
) -> tuple[Kind | MessageType, str, MessageType]:
    """The type of the elements of a request's array; the array with their answers, and its type."""
    [name] = [name for name, of in _pairs(asked, answer) if of == field]
    told = next(one for one in answer.FIELDS if one.name == name)
    kind = next(one for one in asked.FIELDS if one.name == field).element
    assert kind is not None
    return kind, name, _message(told)


def _one(asked: Any, plan: _Plan, error: KafkaError, version: int) -> Refusing:
    made = _flat(asked, plan, error, version)
    for array in plan.arrays:
        inner = getattr(asked, array.asked)
        setattr(made, array.name, (yield from _each(inner or (), array.plan, error, version)))
    return made


def _each(asked: Sequence[Any], plan: _Plan, error: KafkaError, version: int) -> Refusing:
    made: list[Any] = []
    for start in range(0, len(asked), PIECE):
        piece = asked[start : start + PIECE]
        yield len(piece)
        if plan.arrays:
            for one in piece:
                answer = yield from _one(one, plan, error, version)
                made.append(answer)
        else:
            made += [_flat(one, plan, error, version) for one in piece]
    return made


def _flat(asked: Any, plan: _Plan, error: KafkaError, version: int) -> Any:
    """An answer without its arrays."""
    values = {name: getattr(asked, of) for name, of in plan.copied}
    if plan.value is not None:
        values[plan.value] = asked
    for field in plan.set:
        if field.is_in(version):
            if field.name == "error_message":
                values[field.name] = error.message or None
            else:
                values[field.name] = UNTOLD.get(field.name, error.code)
    return plan.answer(**values)


@cache
def _plan(asked: Any, answer: MessageType, every: bool) -> _Plan:
    codes = [field for field in answer.FIELDS if field.name in CODES]
    told = [*codes, *(field for field in answer.FIELDS if field.name in _ALSO_SET)]
    plain = [field for field in answer.FIELDS if field not in told and _is_plain(field)]
    if isinstance(asked, Kind):
        value = next(field.name for field in plain if field.kind is asked)
        return _Plan(answer, (), value, tuple(told), ())
    kinds = {field.name: field.kind for field in asked.FIELDS}
    names = [(one, one.name if one.name in kinds else RENAMED.get(one.name, "")) for one in plain]
    copied = [(field.name, of) for field, of in names if kinds.get(of) is field.kind]
    arrays = []
    for name, of in _pairs(asked, answer):
        field = next(one for one in answer.FIELDS if one.name == name)
        if every or not codes:
            inner = next(one for one in asked.FIELDS if one.name == of).element
            arrays.append(_Array(name, of, _plan(inner, _message(field), every)))
    return _Plan(answer, tuple(copied), None, tuple(told), tuple(arrays))


_ALSO_SET = frozenset({"error_message", *UNTOLD})


def _is_plain(field: Field) -> bool:
    return not isinstance(field.element, MessageType) and field.kind is not ARRAY


def _message(field: Field) -> MessageType:
    assert isinstance(field.element, MessageType)
    return field.element


def _pairs(asked: MessageType, answer: MessageType) -> list[tuple[str, str]]:
    """The arrays of an answer, each with the array of what was asked that names its elements.

    These are arrays of the same name, and otherwise the only one whose elements have error codes
    and the only one that is left.
    """
    mine = [one for one in answer.FIELDS if isinstance(one.element, MessageType)]
    mine = [one for one in mine if one.kind is ARRAY]
    theirs = [one.name for one in asked.FIELDS if one.kind is ARRAY]
    pairs = [(one.name, one.name) for one in mine if one.name in theirs]
    paired = {name for name, _ in pairs}
    left = [name for name in theirs if name not in paired]
    unpaired = [one for one in mine if one.name not in paired]
    unpaired = [one for one in unpaired if has_codes(one)] or unpaired
    if len(left) == 1 and len(unpaired) == 1:
        pairs.append((unpaired[0].name, left[0]))
    return pairs


def has_codes(field: Field) -> bool:
    """Whether the elements of an array have error codes, or elements of their own that have."""
    return isinstance(field.element, MessageType) and any(
        one.name in CODES or has_codes(one) for one in field.element.FIELDS
    )
