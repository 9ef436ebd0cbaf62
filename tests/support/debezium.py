"""Change events of one table as Debezium's PostgreSQL connector and JSON converter write them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""The values as they are in JSON: decimals in base64, days as numbers."""

Record = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""

CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
PLACEHOLDER = "__debezium_unavailable_value"


def schema(type_: str, name: str = "", *, optional: bool = True, **more: Any) -> dict[str, Any]:
    """The schema of a column."""
    named = {"name": name, "version": 1} if name else {}
    return {"type": type_, "optional": optional, **named, **more}


def decimal(scale: int, precision: int) -> dict[str, Any]:
    """The schema of ``numeric(precision, scale)``."""
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return schema("bytes", f"{CONNECT}Decimal", parameters=parameters)


class SourceTable:
    """Makes the records of a table ``shop.public.NAME``, with or without their schemas."""

    def __init__(
        self,
        name: str,
        columns: Mapping[str, dict[str, Any]],
        key: Sequence[str] = ("id",),
        *,
        has_schema: bool = True,
    ) -> None:
        self._name = name
        self._columns = columns
        self._key = key
        self._has_schema = has_schema
        self._changes = 0

    def create(self, after: Row, op: str = "c") -> Record:
        """The record of an INSERT, or of a row of the snapshot (``r``)."""
        return self._key_of(after), self._value(op, after=after)

    def update(self, after: Row, before: Row | None = None) -> Record:
        """The record of an UPDATE; ``before`` only with REPLICA IDENTITY FULL."""
        return self._key_of(after), self._value("u", before=before, after=after)

    def delete(self, row: Row, *, is_full: bool = False) -> list[Record]:
        """The records of a DELETE: without REPLICA IDENTITY FULL, only the key has its values."""
        kept = self._columns if is_full else self._key
        before = {one: row[one] if one in kept else None for one in self._columns}
        return [(self._key_of(row), self._value("d", before=before)), self.tombstone(row)]

    def tombstone(self, row: Row) -> Record:
        """The record after a delete's, which compaction may have left alone."""
        return self._key_of(row), None

    def update_key(self, before: Row, after: Row) -> list[Record]:
        """The records of an UPDATE of the key: a delete, its tombstone, a create."""
        return [*self.delete(before), self.create(after)]

    def truncate(self) -> Record:
        """The record of a TRUNCATE, which has no key."""
        return None, self._value("t")

    def message(self, content: str) -> Record:
        """The record of pg_logical_emit_message, base64 in ``content``."""
        key = self._json({"prefix": "x"}, schema("struct", fields=[]))
        return key, self._value("m", message={"prefix": "x", "content": content})

    def _key_of(self, row: Row) -> bytes:
        fields = [{**self._columns[one], "field": one, "optional": False} for one in self._key]
        of = {"type": "struct", "fields": fields, "optional": False, "name": f"{self._name}.Key"}
        return self._json({one: row[one] for one in self._key}, of)

    def _value(self, op: str, **parts: Any) -> bytes:
        self._changes += 1
        now_ms = 1_559_033_904_863 + self._changes
        source = {
            "version": "3.2.0.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": now_ms,
            "snapshot": "true" if op == "r" else "false",
            "db": "shop",
            "sequence": '["24023119","24023128"]',
            "ts_us": now_ms * 1000,
            "ts_ns": now_ms * 1_000_000,
            "schema": "public",
            "table": self._name,
            "txId": 555,
            "lsn": 24_023_128 + self._changes,
            "xmin": None,
        }
        envelope = {"before": None, "after": None, "source": source, "transaction": None}
        envelope |= {"op": op, "ts_ms": now_ms, "ts_us": now_ms * 1000, "ts_ns": now_ms * 10**6}
        return self._json(envelope | parts, self._envelope())

    def _envelope(self) -> dict[str, Any]:
        fields = [{**one, "field": name} for name, one in self._columns.items()]
        row = {"type": "struct", "fields": fields, "optional": True, "name": f"{self._name}.Value"}
        own = [{"type": "int64", "optional": True, "field": one} for one in ("ts_ms", "ts_us")]
        return {
            "type": "struct",
            "fields": [
                {**row, "field": "before"},
                {**row, "field": "after"},
                {"type": "struct", "fields": own, "optional": False, "field": "source"},
                {"type": "string", "optional": False, "field": "op"},
                *own,
            ],
            "optional": False,
            "name": f"shop.public.{self._name}.Envelope",
            "version": 2,
        }

    def _json(self, payload: dict[str, Any], of: dict[str, Any]) -> bytes:
        whole = {"schema": of, "payload": payload} if self._has_schema else payload
        return json.dumps(whole, separators=(",", ":")).encode()
