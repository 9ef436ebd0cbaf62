"""The field types of Kafka's protocol, and the base classes of messages.

One class stands for all versions of a message. The class lists its fields in wire order::

    class ProduceRequest(Request, key=0, versions=(3, 13), flexible=9):
        transactional_id: str | None = string(nullable=True, default=None)
        acks: int = int16()
        topic_data: list[TopicProduceData] = array(TopicProduceData)

Rules:

- The annotation is for the reader and the type checker. The codecs are generated from the call on
  the right. Every field has a default, Kafka's own, so the constructor takes any subset of fields.
- ``since`` and ``until`` are the first and the last message version that has the field. Without
  them, the first and the last version of the message count.
- ``nullable`` allows None in every version that has the field, ``nullable_since`` from that version
  on.
- The encoder drops an ``ignorable`` field when the version lacks it. For any other field that the
  version lacks, the encoder raises an error unless the value is the default.
- ``tag`` makes a tagged field, which is written only if its value isn't the default. A tagged
  struct that is absent is None.
- ``flexible`` is the first version with compact lengths and tagged fields; None means no version.

Creating a class costs microseconds: ``__init__`` is compiled for the first instance, codecs on
first use (``kwire.protocol.codec``). The classes behave like dataclasses with slots: keyword
arguments, equality field by field, a readable repr, no hash.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, ClassVar, TypeAlias, dataclass_transform

from kwire.protocol.generated import compile_function

ZERO_UUID = bytes(16)
"""The uuid that stands for "no id"."""

LAST_VERSION = 0x7FFF
"""The ``until`` of a field that the newest version still has; versions are int16 on the wire."""

MISSING = object()
"""The default of an argument for which None is a valid value."""


def uuid_to_str(uuid: bytes) -> str:
    """The 22 characters with which Kafka prints a 16-byte uuid: base64url without padding."""
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_from_str(text: str) -> bytes:
    """The 16 bytes of a uuid that Kafka printed; ValueError for any other text."""
    uuid = urlsafe_b64decode(text + "==")
    if len(uuid) != 16 or len(text) != 22:
        raise ValueError(f"not a uuid: {text!r}")
    return uuid


class Field:
    """One field of a message: its type, the versions that have it, and its default."""

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
        """Whether messages of this version have the field."""
        return self.since <= version <= self.until

    def is_nullable_in(self, version: int) -> bool:
        """Whether the field may be None in this version."""
        return version >= self.nullable_since


class Kind:
    """A primitive type of the protocol; calling it makes a field of that type.

    ``code`` is the type's letter in the ``struct`` module, ``size`` its number of bytes on the
    wire. A type of variable length has an empty code and size 0.
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
    """A field with a list of primitive values or nested structs; the default is a new list."""
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
    """A field with a nested struct; the default is a new struct, or None for a tagged field."""
    if tag is not None:
        default = None
    nullable_since = 0 if nullable else LAST_VERSION
    return Field(STRUCT, default, since, until, nullable_since, tag, ignorable, of)


@dataclass_transform(kw_only_default=True)
class MessageType(type):
    """Builds a message class: its fields become slots, and ``FIELDS`` keeps their definitions."""

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
        """The class; ``key``, ``versions`` and the other arguments become its constants."""
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
"""The type of an array's elements: a primitive type, or a class of nested structs."""


class Message(metaclass=MessageType):
    """A class made of fields; see the rules at the top of the module."""

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
    """A struct inside a message; it has the versions of the message around it."""


class Schema(Message):
    """A message that has versions: a request, a response, a coordinator's record, and so on."""

    VERSIONS: ClassVar[tuple[int, int]]
    """The first and the last version, both included."""
    FLEXIBLE_SINCE: ClassVar[int | None]
    """The first version with compact lengths and tagged fields; None if no version has them."""
    LATEST_UNSTABLE: ClassVar[bool]
    """Whether the last version is still under development: the broker never advertises it."""


class Request(Schema):
    """A message that a client sends, with an API key."""

    API_KEY: ClassVar[int]


class Response(Schema):
    """The broker's answer to the request with the same API key."""

    API_KEY: ClassVar[int]


def is_flexible(message: type[Schema], version: int) -> bool:
    """Whether this version has compact lengths and tagged fields, in its body and its header."""
    return message.FLEXIBLE_SINCE is not None and version >= message.FLEXIBLE_SINCE


def _compile_init(cls: type[Message]) -> Any:
    """The ``__init__`` of a message class, with one keyword argument per field."""
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
