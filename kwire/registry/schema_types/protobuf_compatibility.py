"""What a reader with one schema of Protobuf can't read of what was written with another.

The rules are those of Protobuf's own encoding, as Confluent's documentation has them, and the kinds
are Confluent's names. Fields are known by their numbers, messages by their names:

- A field may come, go, and get another name; a required one may not.
- A scalar type may become another one that is encoded alike: ``int32``, ``uint32``, ``int64``,
  ``uint64``, ``bool`` and enums; ``sint32``, ``sint64``; ``fixed32``, ``sfixed32``; ``fixed64``,
  ``sfixed64``; ``string``, ``bytes``.
- A number, a boolean or an enum may not become repeated or stop being so; others may.
- One field may get into a new oneof, but not several, nor one into a oneof that was there; and a
  field of a oneof may not go.
- A message may not go, nor the package change. Enums and their values may do as they like.
"""

from dataclasses import dataclass, field
from typing import Any

from kwire.registry.schema_types.comparison import Comparison
from kwire.registry.schema_types.parsed import Incompatibility

_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_ALIKE = (
    {3, 4, 5, 8, 13, _ENUM},
    {17, 18},
    {7, 15},
    {6, 16},
    {9, 12},
)
"""The numbers of the types (FieldDescriptorProto.Type) that are encoded alike."""
_SIZED = {9, 12, _MESSAGE, _GROUP}
"""Types of which a repeated field is the same as several single ones."""
_NAMES = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""Of the types, which begin with 1."""


def unreadable(reader: Any, writer: Any) -> list[Incompatibility]:
    """The places that the reader can't read; both are FileDescriptors. TooComplex."""
    return _ProtobufComparison().unreadable(
        _Part(reader, "", is_new=True), _Part(writer, "", is_new=False), "#"
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A file or a message; its name says which, for descriptors are made anew at each look."""

    descriptor: Any = field(compare=False)
    name: str
    """The full name of a message; empty for the file."""
    is_new: bool
    """Whether it is the reader's."""

    @classmethod
    def message(cls, descriptor: Any, *, is_new: bool) -> "_Part":
        """A message."""
        return cls(descriptor, str(descriptor.full_name), is_new)


class _ProtobufComparison(Comparison[_Part]):
    """Compares files, and messages by way of their fields."""

    def compared(self, new: _Part, old: _Part, path: str) -> bool:
        """See ``Comparison``."""
        if not new.name:
            return self._files(new.descriptor, old.descriptor, path)
        return self._messages(new.descriptor, old.descriptor, path)

    def _files(self, new: Any, old: Any, path: str) -> bool:
        fits = True
        if new.package != old.package:
            text = f"the package is '{new.package}', and was '{old.package}'"
            fits = self.note("PACKAGE_CHANGED", path, text)
        return self._named(new.message_types_by_name, old.message_types_by_name, path) and fits

    def _named(self, new: Any, old: Any, path: str) -> bool:
        """Messages by their names."""
        fits = True
        for name, before in old.items():
            if before.GetOptions().map_entry:
                continue  # the field says what is to be said
            where = f"{path}/{name}"
            if name in new:
                fits &= self._both(new[name], before, where)
            else:
                fits = self.note("MESSAGE_REMOVED", where, f"message {name} is gone")
        return fits

    def _both(self, new: Any, old: Any, path: str) -> bool:
        return self.compare(_Part.message(new, is_new=True), _Part.message(old, is_new=False), path)

    def _messages(self, new: Any, old: Any, path: str) -> bool:
        fits = self._named(new.nested_types_by_name, old.nested_types_by_name, path)
        fields = new.fields_by_number
        for number, before in old.fields_by_number.items():
            self.count()
            where = f"{path}/{number}"
            if number in fields:
                fits &= self._field(fields[number], before, where)
            elif before.is_required:
                text = f"required field {before.name} is gone"
                fits = self.note("REQUIRED_FIELD_REMOVED", where, text)
            elif _oneof_of(before) is not None:
                text = f"field {before.name} of oneof {_oneof_of(before).name} is gone"
                fits = self.note("ONEOF_FIELD_REMOVED", where, text)
        for number, one in fields.items():
            if one.is_required and number not in old.fields_by_number:
                text = f"field {one.name} is new and required"
                fits = self.note("REQUIRED_FIELD_ADDED", f"{path}/{number}", text)
        return self._oneofs(new, old, path) and fits

    def _field(self, new: Any, old: Any, path: str) -> bool:
        fits = True
        if new.is_required and not old.is_required:
            text = f"field {new.name} is required now"
            fits = self.note("REQUIRED_FIELD_ADDED", path, text)
        if new.is_repeated != old.is_repeated and new.type not in _SIZED:
            text = f"field {new.name} is {'' if new.is_repeated else 'not '}repeated now"
            fits = self.note("FIELD_NUMERIC_LABEL_CHANGED", path, text)
        is_message = new.type in (_MESSAGE, _GROUP)
        if new.type != old.type and not any({new.type, old.type} <= one for one in _ALIKE):
            kinds = {_kind(new), _kind(old)}
            kind = "FIELD_SCALAR_KIND_CHANGED" if kinds == {"scalar"} else "FIELD_KIND_CHANGED"
            text = f"field {new.name} is {_NAMES[new.type - 1]}, and was {_NAMES[old.type - 1]}"
            return self.note(kind, path, text)
        if _type_name(new) != _type_name(old) and new.type == old.type:
            text = f"field {new.name} is {_type_name(new)}, and was {_type_name(old)}"
            return self.note("FIELD_NAMED_TYPE_CHANGED", path, text)
        if is_message:
            fits &= self._both(new.message_type, old.message_type, path)
        return fits

    def _oneofs(self, new: Any, old: Any, path: str) -> bool:
        fits = True
        before = old.fields_by_number
        for oneof in new.oneofs:
            known = [before[one.number] for one in oneof.fields if one.number in before]
            moved = [one.name for one in known if _oneof_of(one) is None]
            names = ", ".join(moved[:10])
            if len(moved) > 1:
                text = f"fields {names} exclude each other now, in oneof {oneof.name}"
                fits = self.note("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof.name}", text)
            elif moved and len(known) > 1:
                text = f"field {names} and those of oneof {oneof.name} exclude each other now"
                fits = self.note("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof.name}", text)
        return fits


def _oneof_of(field: Any) -> Any:
    """The oneof that a field is in; that of a proto3's ``optional`` is none."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return oneof


def _kind(field: Any) -> str:
    return {_MESSAGE: "message", _GROUP: "message", _ENUM: "enum"}.get(field.type, "scalar")


def _type_name(field: Any) -> str:
    """The name of the message or enum; a map has none of its own."""
    named = field.message_type or field.enum_type
    if named is None or (field.message_type and field.message_type.GetOptions().map_entry):
        return "a map" if named is not None else ""
    return str(named.full_name)
