"""Splits requests by topic and partition, and builds error responses that mirror a request.

Rules:

- The fields of a message say which arrays it has in a version. The array that a request asks with,
  and the array that a response answers with, correspond level by level: topics and then partitions.
  So one function makes the error responses of all APIs.
- A *general* error stands at the highest level that has an error code. Any other error stands at
  the lowest level that the request names.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple, TypeAlias

from kwire.protocol.messages import message_classes
from kwire.protocol.types import (
    ARRAY,
    ZERO_UUID,
    Field,
    Message,
    MessageType,
    Request,
    Response,
    int16,
    int32,
    string,
    uuid,
)

NameOf: TypeAlias = Callable[[bytes], str]
"""The name of the topic with an id; empty if there is none."""

NOT_ASKED = frozenset(
    {
        *("forgotten_topics_data", "protocols", "assignments", "configs", "configuration_keys"),
        *("states_filter", "types_filter", "state_filters", "producer_id_filters"),
        *("subscribed_topic_names", "topic_partitions", "resource_types"),
    }
)
"""Arrays of requests whose elements get no error codes of their own."""

ASKED = {("ElectLeadersRequest", "topic_partitions")}
"""Arrays with a name of ``NOT_ASKED`` that get error codes in this one request."""

TOPIC_FIELDS = ("name", "topic", "topic_id")

OF_ERRORS: dict[str, Any] = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "node_id": -1,
    "port": -1,
    "records": b"",
}
"""Values that Kafka sends with an error, if they aren't the defaults of the protocol."""


class Wanted(NamedTuple):
    """The topics and partitions that a fault concerns; None stands for all."""

    topic: str | None
    partition: int | None

    def fits_topic(self, topic: str | None) -> bool:
        """Whether the fault concerns a topic, or some of its partitions."""
        return topic is not None and self.topic in (None, topic)

    def fits(self, topic: str | None, partition: int | None) -> bool:
        """Whether the fault concerns a partition, or a topic as a whole."""
        return self.fits_topic(topic) and self.partition in (None, partition)


def _array(message: MessageType, version: int, fits: Callable[[Field], bool]) -> Field | None:
    found = (f for f in message.FIELDS if f.kind is ARRAY and f.is_in(version) and fits(f))
    return next(found, None)


def _named_array(message: MessageType, version: int) -> Field | None:
    """The array of a request, or of an element, that names topics or partitions."""
    return _array(
        message,
        version,
        lambda field: field.name not in NOT_ASKED or (message.__name__, field.name) in ASKED,
    )


def _array_with_errors(message: MessageType, version: int) -> Field | None:
    """The array of a response whose elements have error codes."""

    def has_errors(field: Field) -> bool:
        element = field.element
        if not isinstance(element, MessageType):
            return False
        return (
            _error(element, version) is not None or _array_with_errors(element, version) is not None
        )

    return _array(message, version, has_errors)


def _error(message: MessageType, version: int) -> Field | None:
    """The error code of a response, or of an element of one."""
    for field in message.FIELDS:
        is_code = field.kind is int16 and field.name.endswith("error_code")
        if is_code and field.is_in(version) and not field.name.startswith("topic_config"):
            return field
    return None


def split(
    message: Message, version: int, wanted: Wanted, name_of: NameOf, topic: str | None = None
) -> tuple[Any, Any]:
    """The part of a request that is ``wanted``, and the other part; None for an empty part."""
    field = _named_array(type(message), version)
    elements = getattr(message, field.name) if field is not None else None
    if field is None or not elements:
        return None, message
    taken, left = [], []
    for element in elements:
        mine, others = _split_element(element, version, wanted, name_of, topic)
        taken += [] if mine is None else [mine]
        left += [] if others is None else [others]
    return _with(message, field.name, taken), _with(message, field.name, left)


def _split_element(
    element: Any, version: int, wanted: Wanted, name_of: NameOf, topic: str | None
) -> tuple[Any, Any]:
    if isinstance(element, Message):
        inner = _topic_of(element, version, name_of) if topic is None else topic
        if _named_array(type(element), version) is not None:
            return split(element, version, wanted, name_of, inner)
        named = (inner, None) if topic is None else (topic, _partition_of(element, version))
    else:
        named = (element, None) if topic is None else (topic, element)
    return (element, None) if wanted.fits(*named) else (None, element)


def _topic_of(element: Message, version: int, name_of: NameOf) -> str | None:
    """The topic that an element names, by name or id; None if the element names none."""
    found = None
    for field in element.FIELDS:
        if field.name in TOPIC_FIELDS and field.is_in(version):
            value = getattr(element, field.name)
            if field.kind is uuid:
                value = name_of(value) if value != ZERO_UUID else None
            found = value or found
    return found


def _partition_of(element: Message, version: int) -> int | None:
    for field in element.FIELDS:
        if field.kind is int32 and field.is_in(version):
            index: int = getattr(element, field.name)
            return index
    return None


def _with(message: Message, name: str, elements: list[Any]) -> Any:
    if not elements:
        return None
    changed = copy(message)
    setattr(changed, name, elements)
    return changed


def refusal(request: Request, version: int, code: int, *, general: bool, text: str) -> Response:
    """The response in which every element of a request has failed with an error code.

    The response to a request that names nothing may have no place for the error.
    """
    response = message_classes(request.API_KEY)[1]()
    if not _refuse(request, response, version, (code, text), general=general):
        field = _array_with_errors(type(response), version)
        assert field is not None
        element = field.element()  # type: ignore[misc]
        if _set_error(element, version, (code, text)):
            setattr(response, field.name, [element])
    return response


def _refuse(
    asked: Any, told: Message, version: int, error: tuple[int, str], *, general: bool
) -> bool:
    """Put an error into a response or an element; False if there is no place for it."""
    if general and _set_error(told, version, error):
        return True
    asked_by = _named_array(type(asked), version) if isinstance(asked, Message) else None
    told_by = _array_with_errors(type(told), version)
    elements = getattr(asked, asked_by.name) if asked_by is not None else None
    if told_by is None or not elements:
        return _set_error(told, version, error)
    answers = []
    for element in elements:
        answer = told_by.element()  # type: ignore[misc]
        _copy_names(element, answer, version)
        _refuse(element, answer, version, error, general=general)
        answers.append(answer)
    setattr(told, told_by.name, answers)
    return True


def _set_error(told: Message, version: int, error: tuple[int, str]) -> bool:
    field = _error(type(told), version)
    if field is None:
        return False
    setattr(told, field.name, error[0])
    for other in told.FIELDS:
        if other.name in OF_ERRORS and other.is_in(version):
            setattr(told, other.name, OF_ERRORS[other.name])
        elif other.name == "error_message" and other.is_in(version):
            told.error_message = error[1]  # type: ignore[attr-defined]
    return True


def _copy_names(asked: Any, told: Message, version: int) -> None:
    """Give an element of a response the names and numbers of the element that asked for it."""
    if not isinstance(asked, Message):
        kind = string if isinstance(asked, str) else int32
        names = (f.name for f in told.FIELDS if f.kind is kind and not f.name.startswith("error"))
        setattr(told, next(names), asked)
        return
    fields = {field.name: field for field in asked.FIELDS if field.is_in(version)}
    for field in told.FIELDS:
        source = fields.get(field.name)
        if source is None and field.name == "partition_index":
            source = fields.get("partition")
        if source is not None and source.kind is field.kind and field.kind is not ARRAY:
            setattr(told, field.name, getattr(asked, source.name))


def merge(response: Any, refused: Any, version: int) -> None:
    """Add the elements of an error response to the response for the other part of the request."""
    field = _array_with_errors(response.__class__, version)
    if field is None:
        return
    elements = getattr(response, field.name)
    for element in getattr(refused, field.name):
        same = None
        if not _is_leaf(element, version):
            same = next((one for one in elements if _names(one) == _names(element)), None)
        if same is None:
            elements.append(element)
        else:
            merge(same, element, version)


def _is_leaf(element: Message, version: int) -> bool:
    return _array_with_errors(type(element), version) is None


def _names(element: Message) -> list[Any]:
    return [
        getattr(element, field.name)
        for field in element.FIELDS
        if field.kind in (string, uuid) and not field.name.startswith("error")
    ]
