"""Messages of Protobuf as what JSON has, for people to read, by the library of Protobuf.

And messages from such JSON, for ``kwire produce``. Its parser limits the depth of nesting to 100,
and lengths to the bytes of the value. It needs the packages ``protobuf`` and ``grpcio-tools``,
which compiles the text of a schema in a process.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kwire.schemas.protobuf_compiler import compile_text
from kwire.schemas.undecodable import Undecodable, Unwritable, WrongSchema

Read = Callable[[tuple[int, ...], bytes], tuple[str, Any]]
"""From the path of a message in its schema, and its bytes, to its name and its fields."""


Write = Callable[[Any], bytes]
"""From the fields of the schema's first message, as JSON has them, to its bytes; Unwritable."""


def writer(text: str, used: Iterable[tuple[str, str]]) -> Write:
    """A writer of the first message of a schema; WrongSchema, as for ``reader``."""
    own, pool = _compiled(text, used)
    if not own.message_type:
        raise WrongSchema("it has no message")
    from google.protobuf import json_format, message_factory

    name = ".".join(filter(None, (own.package, own.message_type[0].name)))
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def write(value: Any) -> bytes:
        if not isinstance(value, dict):
            raise Unwritable(f"{value!r:.60} is no object, as a message {name} is")
        try:
            message = json_format.ParseDict(value, message_class(), descriptor_pool=pool)
        except json_format.ParseError as error:
            raise Unwritable(f"it is no message {name}: {error}") from error
        return bytes(message.SerializeToString(deterministic=True))

    return write


def _compiled(text: str, used: Iterable[tuple[str, str]]) -> tuple[Any, Any]:
    """The file of a schema, and the pool with all types; WrongSchema."""
    descriptors = compile_text(text, tuple(used))
    from google.protobuf import descriptor_pb2, descriptor_pool

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return files[-1], pool


def reader(text: str, used: Iterable[tuple[str, str]]) -> Read:
    """A reader for the messages of a schema; ``used`` has the name and text of each import.

    Raises WrongSchema, also without grpcio-tools.
    """
    own, pool = _compiled(text, used)
    from google.protobuf import json_format, message_factory

    def name_of(indexes: tuple[int, ...]) -> str:
        names, messages = [own.package] if own.package else [], own.message_type
        for index in indexes:
            if not 0 <= index < len(messages):
                raise Undecodable(f"its schema has no message with the indexes {list(indexes)}")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return ".".join(names)

    def read(indexes: tuple[int, ...], value: bytes) -> tuple[str, Any]:
        name = name_of(indexes)
        message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
        try:
            message.ParseFromString(value)
            fields = json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=pool
            )
        except Exception as error:  # of the parser, or of a time that JSON can't have
            raise Undecodable(f"it is no message {name}") from error
        return name, fields

    return read
