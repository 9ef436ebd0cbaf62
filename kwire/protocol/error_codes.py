"""The errors in a response: the values of all its fields called ``error_code``.

``refused`` makes a response with an error in place of its content.

Rules:

- The function that finds these fields is generated for each class of responses, like the codecs,
  because it runs for every response, while there are metrics.
- It reads at most ``MOST`` structs in arrays, so that the count of errors doesn't cost much for a
  large response.
"""

from collections.abc import Callable, Iterator
from functools import cache

from kwire.protocol.generated import compile_function
from kwire.protocol.types import ARRAY, STRUCT, Field, Message, MessageType

MOST = 100


def error_codes(response: Message) -> list[int]:
    """The error codes of a response except NONE, one for each field that has one."""
    return _finder(type(response))(response)


@cache
def _finder(message: MessageType) -> Callable[[Message], list[int]]:
    body = "\n".join(_source(message, "message", 1))
    source = f"def find(message):\n    codes = []\n    left = {MOST}\n{body}\n    return codes"
    name = f"<error codes of {message.__name__}>"
    found: Callable[[Message], list[int]] = compile_function(source, "find", name, {})
    return found


def _source(message: MessageType, holder: str, depth: int) -> Iterator[str]:
    """The lines of code that read a struct, which the variable ``holder`` holds."""
    indent = "    " * depth
    for field in message.FIELDS:
        if field.name == "error_code":
            yield f"{indent}if {holder}.error_code: codes.append({holder}.error_code)"
        inner = field.element
        if not isinstance(inner, MessageType) or not _has_codes(inner):
            continue
        variable = f"inner{depth}"
        if field.kind is STRUCT:
            yield f"{indent}{variable} = {holder}.{field.name}"
            yield f"{indent}if {variable} is not None:"
        elif field.kind is ARRAY:
            yield f"{indent}for {variable} in ({holder}.{field.name} or ())[:left]:"
            yield f"{indent}    left = left - 1 if left else 0"
        yield from _source(inner, variable, depth + 1)


def _has_codes(message: MessageType) -> bool:
    return any(
        field.name == "error_code"
        or (isinstance(field.element, MessageType) and _has_codes(field.element))
        for field in message.FIELDS
    )


_CODES = ("error_code", "partition_error_code")


def refused(response: Message, code: int) -> Message:
    """A response of the same kind with an error, and without other content.

    If no element of the response has an error code of its own, the result is a new response.
    Otherwise it is this response: each error code is set to ``code``, and only arrays with error
    codes stay.
    """
    kind = type(response)
    codes = [field.name for field in kind.FIELDS if field.name in _CODES]
    if codes and not any(_tells(field) for field in kind.FIELDS):
        return kind(error_code=code)
    _refuse(response, code)
    return response


def _refuse(message: Message, code: int) -> None:
    has_code = any(field.name in _CODES for field in type(message).FIELDS)
    for field in type(message).FIELDS:
        if field.name in _CODES:
            setattr(message, field.name, code)
        elif field.kind is ARRAY and _tells(field):
            for inner in getattr(message, field.name) or ():
                _refuse(inner, code)
        elif field.kind is ARRAY and has_code:
            setattr(message, field.name, [])


def _tells(field: Field) -> bool:
    """Whether the elements of a field have error codes."""
    inner = field.element
    return isinstance(inner, MessageType) and any(
        one.name in _CODES or _tells(one) for one in inner.FIELDS
    )
