"""A schema as Spark's DDL writes it, read without Spark: ``id BIGINT NOT NULL, tags ARRAY<INT>``.

So a wrong schema is found before Spark starts, and the error names the place. ``OBJECT<…>``, which
``schema_of_variant_agg`` writes, is read as a struct.
"""

import re

from kwire.spark.decode.spark_types import (
    MAX_PRECISION,
    SparkType,
    array,
    field,
    map_of,
    struct,
)

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*')|(\w+)|(\S))")

_ATOMIC = {
    "boolean": "boolean",
    "byte": "byte",
    "tinyint": "byte",
    "short": "short",
    "smallint": "short",
    "int": "integer",
    "integer": "integer",
    "long": "long",
    "bigint": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "variant": "variant",
    "void": "void",
}
_MAX_DEPTH = 50


class WrongDdl(ValueError):
    """A text that isn't a schema; the error says what was found and what was expected."""


def parse_ddl(text: str) -> SparkType:
    """The struct of a list of columns; WrongDdl."""
    reader = _Reader(text)
    columns = reader.columns(":", end="")
    if not columns["fields"]:
        raise WrongDdl("it has no column")
    return columns


def parse_type(text: str, *, cut: bool = False) -> SparkType:
    """One type, such as ``ARRAY<INT>``; WrongDdl.

    ``cut`` makes a variant of what is nested too deep, whatever it is.
    """
    reader = _Reader(text, cut=cut)
    found = reader.type()
    reader.expect("")
    return found


class _Reader:
    """Reads tokens one after the other; an empty token is the end."""

    def __init__(self, text: str, *, cut: bool = False) -> None:
        self._cut = cut
        self._tokens: list[str] = []
        position = 0
        while found := _TOKEN.match(text, position):
            position = found.end()
            self._tokens.append(found[0].strip())
        self._next = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _next_token(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def expect(self, wanted: str) -> None:
        """Take a token, which has to be ``wanted``."""
        token = self._next_token()
        if token.lower() != wanted:
            raise WrongDdl(f"{wanted or 'its end'} is expected at {token or 'its end'}")

    def _takes(self, *words: str) -> bool:
        """Take the words if they come next."""
        ahead = self._tokens[self._next : self._next + len(words)]
        if [token.lower() for token in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def columns(self, colon: str, end: str) -> dict[str, list[dict[str, object]]]:
        """Columns up to ``end``, which is taken."""
        fields: list[dict[str, object]] = []
        while self._peek() != end:
            name = self._name()
            self._takes(colon)
            of = self.type()
            nullable = not self._takes("not", "null")
            if self._takes("comment"):
                self._next_token()
            if any(one["name"] == name for one in fields):
                raise WrongDdl(f"column {name} is there twice")
            fields.append(field(name, of, nullable=nullable))
            if self._peek() != end:
                self.expect(",")
                if self._peek() == end:
                    raise WrongDdl(f"a column is expected at {end or 'its end'}")
        self._next_token()
        return struct(fields)

    def _name(self) -> str:
        token = self._next_token()
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token) or token.isdecimal():
            raise WrongDdl(f"a column's name is expected at {token or 'its end'}")
        return token

    def type(self) -> SparkType:
        """A type, with what is nested in it."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            if self._cut:
                self._depth -= 1
                return self._passed_over()
            raise WrongDdl(f"it is nested more than {_MAX_DEPTH} deep")
        try:
            return self._type()
        finally:
            self._depth -= 1

    def _passed_over(self) -> SparkType:
        """Take a type with all that is nested in it."""
        depth = 0
        while token := self._next_token():
            depth += (token in ("<", "(")) - (token in (">", ")"))
            if not depth and self._peek() not in ("<", "("):
                break
        return "variant"

    def _type(self) -> SparkType:
        name = self._next_token()
        kind = name.lower()
        if kind in _ATOMIC:
            return _ATOMIC[kind]
        if kind in ("decimal", "dec", "numeric"):
            return self._decimal()
        if kind not in ("struct", "object", "array", "map"):
            allowed = ", ".join([*_ATOMIC, "decimal(p,s)", "struct<…>", "array<…>", "map<…>"])
            raise WrongDdl(f"{name or 'its end'} is no type; there are {allowed}")
        self.expect("<")
        if kind in ("struct", "object"):
            return self.columns(":", end=">")
        first = self.type()
        if kind == "array":
            self.expect(">")
            return array(first)
        self.expect(",")
        value = self.type()
        self.expect(">")
        return map_of(first, value)

    def _decimal(self) -> SparkType:
        if not self._takes("("):
            return "decimal(10,0)"
        precision, scale = self._number(), 0
        if self._takes(","):
            scale = self._number()
        self.expect(")")
        if not 0 < precision <= MAX_PRECISION or scale > precision:
            raise WrongDdl(f"decimal({precision},{scale}) has up to {MAX_PRECISION} digits")
        return f"decimal({precision},{scale})"

    def _number(self) -> int:
        token = self._next_token()
        if not token.isdecimal():
            raise WrongDdl(f"a number is expected at {token or 'its end'}")
        return int(token)
