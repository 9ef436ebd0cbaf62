"""The text of a ``.proto`` file, written from its descriptor.

Types have their full names with a leading dot, options stand in the order of their numbers, and
what a descriptor doesn't have, such as comments, is gone. Compiled again it gives the same
descriptor.
"""

import re
from collections.abc import Iterable
from typing import Any

_SCALARS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", ""),
    *("", "bytes", "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""By FieldDescriptorProto.Type, which begins with 1; groups, messages and enums have names."""
_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
_GROUP, _STRING, _BYTES, _ENUM, _MESSAGE = 10, 9, 12, 14, 11
_END = 536_870_912
_END_OF_ENUMS = 2_147_483_647


def written(file: bytes, pool: Any, *, is_normal: bool = False) -> str:
    """The text of a FileDescriptorProto; ``pool`` knows the options that it and its imports define.

    ``is_normal`` sorts imports by name and fields by number; messages keep their order, by which a
    record names its own.
    """
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorProto.FromString(file)
    return _Writer(pool, found.syntax == "proto3", is_normal).file(found)


class _Writer:
    """Writes the parts of a file, each as lines."""

    def __init__(self, pool: Any, is_proto3: bool, is_normal: bool) -> None:
        self._pool = pool
        self._is_proto3 = is_proto3
        self._is_normal = is_normal

    def file(self, file: Any) -> str:
        """The whole file."""
        lines = [f'syntax = "{"proto3" if self._is_proto3 else "proto2"}";']
        if file.package:
            lines.append(f"package {file.package};")
        lines += self._imports(file)
        lines += [f"option {one};" for one in self._options(file.options)]
        for message in file.message_type:
            lines += self._message(message)
        for enum in file.enum_type:
            lines += self._enum(enum)
        lines += self._extensions(file.extension, [])
        for service in file.service:
            lines += self._service(service)
        return "\n".join(lines) + "\n"

    def _imports(self, file: Any) -> list[str]:
        kinds = dict.fromkeys(file.public_dependency, "public ")
        kinds |= dict.fromkeys(file.weak_dependency, "weak ")
        lines = [
            f"import {kinds.get(index, '')}{_quoted(name)};"
            for index, name in enumerate(file.dependency)
        ]
        return sorted(lines) if self._is_normal else lines

    def _message(self, message: Any, start: str = "") -> list[str]:
        nested = {one.name: one for one in message.nested_type}
        groups = {
            one.type_name.rpartition(".")[2]
            for one in (*message.field, *message.extension)
            if one.type == _GROUP
        }
        lines = [f"option {one};" for one in self._options(message.options)]
        lines += self._fields(message, nested)
        for one in message.nested_type:
            if not one.options.map_entry and one.name not in groups:
                lines += self._message(one)
        for enum in message.enum_type:
            lines += self._enum(enum)
        lines += self._extensions(message.extension, message.nested_type)
        spans = ((one.start, one.end - 1) for one in message.extension_range)
        lines += [f"extensions {_span(start, end, _END - 1)};" for start, end in spans]
        spans = ((one.start, one.end - 1) for one in message.reserved_range)
        lines += self._reserved(spans, message.reserved_name, _END - 1)
        return _block(start or f"message {message.name}", lines)

    def _fields(self, message: Any, nested: dict[str, Any]) -> list[str]:
        lines: list[str] = []
        done: set[int] = set()
        for field in self._in_order(message.field):
            if not field.HasField("oneof_index") or field.proto3_optional:
                lines += self._field(field, nested)
            elif field.oneof_index not in done:
                done.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                inner = [f"option {one};" for one in self._options(oneof.options)]
                for one in self._in_order(message.field):
                    if one.HasField("oneof_index") and one.oneof_index == field.oneof_index:
                        inner += self._field(one, nested, is_in_oneof=True)
                lines += _block(f"oneof {oneof.name}", inner)
        return lines

    def _in_order(self, fields: Iterable[Any]) -> list[Any]:
        return sorted(fields, key=lambda one: one.number) if self._is_normal else list(fields)

    def _field(self, field: Any, nested: dict[str, Any], *, is_in_oneof: bool = False) -> list[str]:
        short = field.type_name.rpartition(".")[2]
        entry = nested.get(short) if field.type == _MESSAGE else None
        options = self._field_options(field)
        end = f" = {field.number}" + (f" [{', '.join(options)}]" if options else "")
        label = self._label(field, is_in_oneof)
        if field.type == _GROUP and short in nested:
            return self._message(nested[short], f"{label}group {short}{end}")
        if entry is not None and entry.options.map_entry:
            key, value = entry.field
            return [f"map<{_type(key)}, {_type(value)}> {field.name}{end};"]
        return [f"{label}{_type(field)} {field.name}{end};"]

    def _label(self, field: Any, is_in_oneof: bool) -> str:
        if is_in_oneof:
            return ""
        if self._is_proto3 and field.label == 1:
            return "optional " if field.proto3_optional else ""
        return _LABELS[field.label]

    def _field_options(self, field: Any) -> list[str]:
        options = []
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.json_name and field.json_name != _json_name(field.name):
            options.append(f"json_name = {_quoted(field.json_name)}")
        return options + self._options(field.options)

    def _extensions(self, extensions: Iterable[Any], nested: Iterable[Any]) -> list[str]:
        lines = []
        by_name = {one.name: one for one in nested}
        for one in extensions:
            lines += _block(f"extend {one.extendee}", self._field(one, by_name))
        return lines

    def _enum(self, enum: Any) -> list[str]:
        lines = [f"option {one};" for one in self._options(enum.options)]
        for value in enum.value:
            options = self._options(value.options)
            listed = f" [{', '.join(options)}]" if options else ""
            lines.append(f"{value.name} = {value.number}{listed};")
        spans = ((one.start, one.end) for one in enum.reserved_range)
        lines += self._reserved(spans, enum.reserved_name, _END_OF_ENUMS)
        return _block(f"enum {enum.name}", lines)

    def _reserved(
        self, spans: Iterable[tuple[int, int]], names: Iterable[str], end: int
    ) -> list[str]:
        ordered = sorted(spans) if self._is_normal else spans
        named = sorted(names) if self._is_normal else names
        lines = [f"reserved {_span(first, last, end)};" for first, last in ordered]
        return lines + [f"reserved {_quoted(name)};" for name in named]

    def _service(self, service: Any) -> list[str]:
        lines = [f"option {one};" for one in self._options(service.options)]
        for method in service.method:
            asked = f"({'stream ' if method.client_streaming else ''}{method.input_type})"
            given = f"({'stream ' if method.server_streaming else ''}{method.output_type})"
            start = f"rpc {method.name} {asked} returns {given}"
            options = [f"option {one};" for one in self._options(method.options)]
            lines += _block(start, options) if options else [f"{start};"]
        return _block(f"service {service.name}", lines)

    def _options(self, options: Any) -> list[str]:
        """Each option as ``name = value``; those of the schema's own are known to the pool."""
        from google.protobuf import message_factory

        content = options.SerializeToString()
        if not content:
            return []
        try:
            known = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
            options = message_factory.GetMessageClass(known).FromString(content)
        except KeyError:
            pass  # without an import of descriptor.proto, no option is the schema's own
        found = []
        for field, value in options.ListFields():
            name = f"(.{field.full_name})" if field.is_extension else field.name
            values = value if field.is_repeated else [value]
            found += [f"{name} = {_value(field, one)}" for one in values]
        return found


def _value(field: Any, value: Any) -> str:
    from google.protobuf import text_encoding, text_format

    if field.type in (_MESSAGE, _GROUP):
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.type == _ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if field.type in (_STRING, _BYTES):
        return f'"{text_encoding.CEscape(value, False)}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(field: Any) -> str:
    if field.type == _STRING:
        return _quoted(field.default_value)
    return f'"{field.default_value}"' if field.type == _BYTES else str(field.default_value)


def _quoted(text: str) -> str:
    from google.protobuf import text_encoding

    return f'"{text_encoding.CEscape(text, False)}"'


def _type(field: Any) -> str:
    return _SCALARS[field.type - 1] or str(field.type_name)


def _span(first: int, last: int, end: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == end else last}"


def _json_name(name: str) -> str:
    """The name that protoc gives a field in JSON."""
    return re.sub(r"_+(.?)", lambda found: found[1].upper(), name)


def _block(start: str, lines: list[str]) -> list[str]:
    return [f"{start} {{", *(f"  {line}" for line in lines), "}"] if lines else [f"{start} {{}}"]
