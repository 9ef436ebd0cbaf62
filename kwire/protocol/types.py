"""What a message is: the field types of Kafka's protocol and the base classes of messages.

A message is one plain class for all its versions, with slots and keyword arguments, written as a
list of fields in wire order::

    class ProduceRequest(Request, key=0, versions=(3, 13), flexible=9):
        transactional_id: str | None = string(nullable=True, default=None)
        acks: int = int16()
        topic_data: list[TopicProduceData] = array(TopicProduceData)

Rules:

- The annotation is for the reader and the type checker; the call on the right is what the codecs
  are generated from. Every field has a default, Kafka's own, so any subset may be given.
- ``since`` and ``until`` are the first and last message version that has the field; left out,
  the field is there from the first or up to the last version.
- ``nullable`` allows None in every version that has the field, ``nullable_since`` from a version.
- ``ignorable`` fields are dropped without a word when a version lacks them; any other field with
  a value that isn't its default makes the encoder refuse.
- ``tag`` makes an optional tagged field, written only when it isn't the default. A tagged struct
  that is absent is None.
- ``flexible`` is the first version with compact lengths and tagged fields, None if there is none.

Creating a class costs microseconds: ``__init__`` is compiled on the first instance, codecs on
first use (``kwire.protocol.codec``). The classes behave like slotted dataclasses: keyword
arguments, equality field by field, a readable repr, no hash.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, ClassVar, TypeAlias, dataclass_transform

from kwire.protocol.generated import compile_function

ZERO_UUID = bytes(16)
"""The uuid that means "none"."""

LAST_VERSION = 0x7FFF
"""``until`` of a field that no version has dropped; versions are int16 on the wire."""

MISSING = object()
"""Stands for an argument that wasn't given, where None is a value of its own."""


def uuid_to_str(uuid: bytes) -> str:
    """The 22 characters by which Kafka prints a 16-byte uuid: base64url without padding."""
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_from_str(text: str) -> bytes:
    """The 16 bytes of a uuid printed by Kafka; ValueError for anything that isn't one."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != 16 or len(text) != 22:
        raise ValueError(f"not a uuid: {text!r}")
    return uuid


class Field:
    """One field of a message: what it holds, in which versions, and its default."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "kind",
        "name",
        "nullable_since",
        "since",
        "tag",
        "until",
    )

    def __init__(
        self,
        kind: "Kind",
        default: Any,
        since: int = 0,
        until: int = LAST_VERSION,
        nullable_since: int = LAST_VERSION,
        tag: int | None = None,
        ignorable: bool = False,
        element: "Kind | MessageType | None" = None,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.default = default
        self.since = since
        self.until = until
        self.nullable_since = nullable_since
        self.tag = tag
        self.ignorable = ignorable
        self.element = element

    def is_in(self, version: int) -> bool:
        """Whether messages of this version have the field at all."""
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        """Whether None can be written in this version."""
        return version >= self.nullable_since


class Kind:
    """A primitive type of the protocol; calling it makes a field of that type.

    ``code`` is its letter in the ``struct`` module and ``size`` its bytes on the wire; both are
    empty for types of variable length.
    """

    __slots__ = ("code", "default", "name", "size")

    def __init__(self, name: str, default: Any, code: str = "", size: int = 0) -> None:
        self.name = name
        self.default = default
        self.code = code
        self.size = size

    def __call__(
        self,
        *,
        since: int = 0,
        until: int = LAST_VERSION,
        nullable: bool = False,
        nullable_since: int = LAST_VERSION,
        default: Any = MISSING,
        tag: int | None = None,
        ignorable: bool = False,
    ) -> Any:
        return Field(
            self,
            self.default if default is MISSING else default,
            since,
            until,
            0 if nullable else nullable_since,
            tag,
            ignorable,
        )

    def __repr__(self) -> str:
        return self.name


boolean = Kind("boolean", False, "?", 1)
int8 = Kind("int8", 0, "b", 1)
int16 = Kind("int16", 0, "h", 2)
uint16 = Kind("uint16", 0, "H", 2)
int32 = Kind("int32", 0, "i", 4)
uint32 = Kind("uint32", 0, "I", 4)
int64 = Kind("int64", 0, "q", 8)
float64 = Kind("float64", 0.0, "d", 8)
uuid = Kind("uuid", ZERO_UUID, "16s", 16)
string = Kind("string", "")
binary = Kind("binary", b"")
record_batches = Kind("record_batches", None)

ARRAY = Kind("array", MISSING)
STRUCT = Kind("struct", MISSING)


def array(
    element: "Element",
    *,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable: bool = False,
    nullable_since: int = LAST_VERSION,
    default: Any = MISSING,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A list of ``element``, either a primitive type or a nested struct; a fresh one by default."""
    nullable_since = 0 if nullable else nullable_since
    return Field(ARRAY, default, since, until, nullable_since, tag, ignorable, element)


def struct(
    of: "MessageType",
    *,
    since: int = 0,
    until: int = LAST_VERSION,
    nullable: bool = False,
    default: Any = MISSING,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A nested struct; a fresh one by default, or None where it is tagged."""
    if tag is not None:
        default = None
    nullable_since = 0 if nullable else LAST_VERSION
    return Field(STRUCT, default, since, until, nullable_since, tag, ignorable, of)


@dataclass_transform(kw_only_default=True)
class MessageType(type):
    """Builds a message class: its fields become slots, ``FIELDS`` keeps what they were."""

    FIELDS: tuple[Field, ...]

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: tuple[int, int] | None = None,
        flexible: int | None = None,
        latest_unstable: bool = False,
    ) -> "MessageType":
        """The class; ``key``, ``versions`` … become its constants."""
        fields = {name: value for name, value in namespace.items() if type(value) is Field}
        for field_name, field in fields.items():
            field.name = field_name
            del namespace[field_name]
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = tuple(fields.values())
        if versions is not None:
            namespace["VERSIONS"] = versions
            namespace["FLEXIBLE_SINCE"] = flexible
            namespace["LATEST_UNSTABLE"] = latest_unstable
        if key is not None:
            namespace["API_KEY"] = key
        return super().__new__(cls, name, bases, namespace)


Element: TypeAlias = Kind | MessageType
"""What an array holds: a primitive type, or a class of nested structs."""


class Message(metaclass=MessageType):
    """Anything made of fields; see the rules above."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        type.__setattr__(cls, "__init__", _compile_init(cls))
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # mutable, like a dataclass with eq

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Nested(Message):
    """A struct inside a message; its versions are those of the message around it."""


class Schema(Message):
    """A message of its own that isn't an API: the key or value of a coordinator's record, …"""

    VERSIONS: ClassVar[tuple[int, int]]
    """First and last version, both included."""
    FLEXIBLE_SINCE: ClassVar[int | None]
    """First version with compact lengths and tagged fields."""
    LATEST_UNSTABLE: ClassVar[bool]
    """Whether the last version is still being developed: never advertise it."""


class Request(Schema):
    """What a client sends under an API key."""

    API_KEY: ClassVar[int]


class Response(Schema):
    """What the broker answers to the request with the same API key."""

    API_KEY: ClassVar[int]


def is_flexible(message: type[Schema], version: int) -> bool:
    """Whether a version has compact lengths and tagged fields, in its body and its header."""
    return message.FLEXIBLE_SINCE is not None and version >= message.FLEXIBLE_SINCE


def _compile_init(cls: type[Message]) -> Any:
    """``__init__`` of a message class, with one keyword argument per field."""
    namespace: dict[str, Any] = {"MISSING": MISSING}
    parameters, body = [], []
    for field in cls.FIELDS:
        name = field.name
        namespace[f"default_{name}"] = field.default
        parameters.append(f"{name}=default_{name}")
        if field.default is not MISSING:
            body.append(f"    self.{name} = {name}")
            continue
        namespace[f"of_{name}"] = field.element
        fresh = "[]" if field.kind is ARRAY else f"of_{name}()"
        body.append(f"    self.{name} = {fresh} if {name} is MISSING else {name}")
    signature = f"def __init__(self, {'*, ' if parameters else ''}{', '.join(parameters)}):"
    source = "\n".join([signature, *(body or ["    pass"])])
    return compile_function(source, "__init__", f"<{cls.__module__}.{cls.__name__}>", namespace)
