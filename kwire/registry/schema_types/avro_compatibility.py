"""What a reader with one Avro schema can't read of what was written with another.

The rules are Avro's resolution of schemas, as ``SchemaCompatibility`` of its Java library has them,
and the kinds and paths are its own. Apache's ``avro.compatibility`` has them for Python. It isn't
used, for three reasons: its messages and paths are sets, so nobody knows which belong together; it
repeats what it found in a type at each use of that type, which doubles with every level of a schema
that is made for it; and it has no limit. ``tests/registry`` holds this module against it.

Names match without their namespace, or by an alias of the reader's.
"""

from collections.abc import Callable
from functools import partial

from kwire.registry.schema_types.avro_types import UNION, AvroField, AvroType
from kwire.registry.schema_types.comparison import Comparison
from kwire.registry.schema_types.parsed import Incompatibility

_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""What a reader of a type also reads."""


def unreadable(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """The places that the reader can't read; TooComplex."""
    return _AvroComparison().unreadable(reader, writer, "")


class _AvroComparison(Comparison[AvroType]):
    """Compares types."""

    def compared(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        """See ``Comparison``."""
        if writer.kind == UNION:
            return self._all_branches(reader, writer, path)
        if reader.kind == UNION:
            return self._some_branch(reader, writer, path)
        if _family(reader) != _family(writer):
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return True
            text = f"{_name(reader)} can't read {_name(writer)}"
            return self.note("TYPE_MISMATCH", path, text)
        check = self._of_kind.get(_family(reader))
        return check is None or check(self, reader, writer, path)

    def _all_branches(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        """A reader reads a union if it reads each of its branches."""
        fits = True
        for index, branch in enumerate(writer.parts):
            if reader.kind != UNION:
                fits &= self.compare(reader, branch, path)
                continue
            fits &= self._some_branch(reader, branch, f"{path}/{index}")
        return fits

    def _some_branch(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        """A union reads what one of its branches reads."""
        fits = self.some(partial(self.compare, one, writer, path) for one in reader.parts)
        text = f"no branch of the new union reads {_name(writer)} of the old schema"
        return fits or self.note("MISSING_UNION_BRANCH", path, text)

    def _parts(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        inner = "items" if reader.kind == "array" else "values"
        return self.compare(reader.parts[0], writer.parts[0], f"{path}/{inner}")

    def _fixed(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        fits = self._names(reader, writer, path)
        if reader.size != writer.size:
            text = f"fixed {reader.name} has {reader.size} bytes, and had {writer.size}"
            fits = self.note("FIXED_SIZE_MISMATCH", f"{path}/size", text)
        return fits

    def _enum(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        fits = self._names(reader, writer, path)
        known = set(reader.symbols)
        missing = [one for one in writer.symbols if one not in known]
        if missing and reader.default is None:
            names = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
            text = f"enum {reader.name} lacks {names} of the old schema, and has no default"
            fits = self.note("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)
        return fits

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        fits = self._names(reader, writer, path)
        written = {one.name: one for one in writer.fields}
        for index, one in enumerate(reader.fields):
            where = f"{path}/fields/{index}"
            old = _written_as(one, written)
            if old is not None:
                fits &= self.compare(one.type, old.type, f"{where}/type")
            elif not one.has_default:
                text = (
                    f"field '{one.name}' of record {reader.name} has no default, "
                    "and the old schema has no such field"
                )
                fits = self.note("READER_FIELD_MISSING_DEFAULT_VALUE", where, text)
        return fits

    def _names(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        if reader.short_name == writer.short_name or writer.name in reader.aliases:
            return True
        text = f"{reader.name} was {writer.name}, which isn't among its aliases"
        return self.note("NAME_MISMATCH", f"{path}/name", text)

    _of_kind: "dict[str, Callable[[_AvroComparison, AvroType, AvroType, str], bool]]" = {  # noqa: RUF012
        "array": _parts,
        "map": _parts,
        "fixed": _fixed,
        "enum": _enum,
        "record": _record,
    }


def _family(one: AvroType) -> str:
    return "record" if one.kind == "error" else one.kind


def _name(one: AvroType) -> str:
    return f"{one.kind} {one.name}" if one.name else one.kind


def _written_as(one: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """The writer's field of the same name, or of one of the reader's aliases."""
    for name in (one.name, *one.aliases):
        if name in written:
            return written[name]
    return None
