"""What a reader with one Avro schema can't read of what was written with another.

The rules are Avro's resolution of schemas, as ``SchemaCompatibility`` of its Java library has them,
and the kinds and paths are its own. Apache's ``avro.compatibility`` has them for Python. It isn't
used, for three reasons: its messages and paths are sets, so nobody knows which belong together; it
repeats what it found in a type at each use of that type, which doubles with every level of a schema
that is made for it; and it has no limit. ``tests/registry`` holds this module against it.

Rules:

- Each pair of types is told once, at the path where it stands first, so recursive types end. The
  steps are bounded by ``MAX_STEPS`` and the depth by ``MAX_COMPARED_DEPTH``.
- A pair that is being looked at counts as readable. If it turns out not to be, the whole is done
  again with what is known, until nothing new is found.
- Names match without their namespace, or by an alias of the reader's.
"""

from collections.abc import Callable

from kwire.registry.schema_types.avro_types import UNION, AvroField, AvroType
from kwire.registry.schema_types.parsed import (
    MAX_COMPARED_DEPTH,
    MAX_FOUND,
    MAX_STEPS,
    Incompatibility,
    TooComplex,
)

_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""What a reader of a type also reads."""


def unreadable(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Up to ``MAX_FOUND`` places that the reader can't read; TooComplex."""
    comparison = _Comparison()
    while True:
        comparison.start()
        comparison.compare(reader, writer, "")
        if not comparison.has_new:
            return comparison.found


class _Comparison:
    """The pairs of types looked at; those that are known not to fit stay through all rounds."""

    def __init__(self) -> None:
        self._steps = 0
        self._unfit: set[tuple[AvroType, AvroType]] = set()
        self.start()

    def start(self) -> None:
        """Begin a round."""
        self.found: list[Incompatibility] = []
        self.has_new = False
        self._seen: set[tuple[AvroType, AvroType, bool]] = set()
        """Pairs, and whether they were looked at only to try a union's branch, untold."""
        self._trying = 0
        self._depth = 0

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        """Whether the reader reads it; if not, ``found`` says why."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise TooComplex(f"to compare the schemas takes more than {MAX_STEPS:,} steps")
        pair, look = (reader, writer), (reader, writer, self._trying > 0)
        if look in self._seen:
            return pair not in self._unfit
        if self._depth == MAX_COMPARED_DEPTH:
            raise TooComplex(f"the schemas' types are more than {MAX_COMPARED_DEPTH} deep")
        self._seen.add(look)
        self._depth += 1
        fits = self._compared(reader, writer, path)
        self._depth -= 1
        if not fits and pair not in self._unfit:
            self._unfit.add(pair)
            self.has_new = True
        return fits

    def _compared(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        if writer.kind == UNION:
            return self._all_branches(reader, writer, path)
        if reader.kind == UNION:
            return self._some_branch(reader, writer, path)
        if _family(reader) != _family(writer):
            if writer.kind in _PROMOTED.get(reader.kind, ()):
                return True
            text = f"{_name(reader)} can't read {_name(writer)}"
            return self._note("TYPE_MISMATCH", path, text)
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
        self._trying += 1
        fits = any(self.compare(branch, writer, path) for branch in reader.parts)
        self._trying -= 1
        text = f"no branch of the new union reads {_name(writer)} of the old schema"
        return fits or self._note("MISSING_UNION_BRANCH", path, text)

    def _parts(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        inner = "items" if reader.kind == "array" else "values"
        return self.compare(reader.parts[0], writer.parts[0], f"{path}/{inner}")

    def _fixed(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        fits = self._names(reader, writer, path)
        if reader.size != writer.size:
            text = f"fixed {reader.name} has {reader.size} bytes, and had {writer.size}"
            fits = self._note("FIXED_SIZE_MISMATCH", f"{path}/size", text)
        return fits

    def _enum(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        fits = self._names(reader, writer, path)
        known = set(reader.symbols)
        missing = [one for one in writer.symbols if one not in known]
        if missing and reader.default is None:
            names = ", ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
            text = f"enum {reader.name} lacks {names} of the old schema, and has no default"
            fits = self._note("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)
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
                fits = self._note("READER_FIELD_MISSING_DEFAULT_VALUE", where, text)
        return fits

    def _names(self, reader: AvroType, writer: AvroType, path: str) -> bool:
        if reader.short_name == writer.short_name or writer.name in reader.aliases:
            return True
        text = f"{reader.name} was {writer.name}, which isn't among its aliases"
        return self._note("NAME_MISMATCH", f"{path}/name", text)

    def _note(self, kind: str, path: str, text: str) -> bool:
        # A branch that doesn't fit is no news: another one may, and the union says so if none does.
        if not self._trying and len(self.found) < MAX_FOUND:
            self.found.append(Incompatibility(kind, path or "/", text))
        return False

    _of_kind: "dict[str, Callable[[_Comparison, AvroType, AvroType, str], bool]]" = {  # noqa: RUF012
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
