"""Debezium's change events to rows: what a table of upserts has to do to be like the source's.

A value is an envelope in JSON, as it is (``{"before": …, "after": …, "op": "u", …}``) or with its
schema (``{"schema": …, "payload": {"before": …}}``), or in Avro, Protobuf or JSON with the id of a
registry's schema (``connect_registry``). The columns are those of the settings' schema, and
``connect_values`` says how values get their types. Beside the row, the column ``rows.CHANGE`` says
which change it is:

====================  ===============================  =========================================
event                 ``op``                           row
====================  ===============================  =========================================
create, update, read  c, u, r                          ``after``
delete                d; the row is a tombstone        ``before``, without one the record's key
tombstone             d; the row is a tombstone        the columns of the record's key
truncate              t; the row is a tombstone        only nulls
message               m                                only nulls
of no table           null                             only nulls
====================  ===============================  =========================================

Events of no table are heartbeats, the begin and end of transactions, and changes of schemas, which
have topics of their own that a pattern may match.

Rules:

- A tombstone after a delete changes nothing more. But compaction may have left only the tombstone,
  so it deletes by itself.
- PostgreSQL doesn't log a large value that an update leaves as it was, so Debezium writes a
  placeholder. The value is taken from ``before`` if that has it (REPLICA IDENTITY FULL). Otherwise
  the column is null, and named in ``unchanged``: ``kwire.spark.changes`` says what becomes of it.
  In an insert it has no earlier value, so there the record is a dead letter.
- A delete needs no more than the row's key: in ``before``, columns that aren't in the record's key
  are null where their values don't fit. If that key is no JSON object, every value has to fit.
- With a registry, a key that doesn't begin with an id is JSON: keys may have another converter.
- What isn't an envelope, such as a row that a transform of Connect has flattened, is a dead letter.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from kwire.schemas.registry import RegistrySettings
from kwire.schemas.undecodable import Undecodable
from kwire.spark import rows
from kwire.spark.decode.arrow_rows import arrow_type_of_text, to_arrow
from kwire.spark.decode.connect_registry import ConnectRegistry
from kwire.spark.decode.connect_values import (
    Meanings,
    Schema,
    as_text,
    columns_of,
    fields_of,
    from_json,
)
from kwire.spark.decode.decoding import Row
from kwire.spark.decode.in_python import in_workers, line_of, plan_type
from kwire.spark.decode.spark_types import kind_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PLACEHOLDER = "__debezium_unavailable_value"

CREATE, UPDATE, READ, DELETE, TRUNCATE, MESSAGE = "c", "u", "r", "d", "t", "m"
_WITH_ROW = (CREATE, UPDATE, READ)
_TRANSACTION = {"status", "id", "event_count", "data_collections"}
_HEARTBEAT = {"ts_ms"}
_DDL = {"source", "ddl"}


class Change(NamedTuple):
    """The ``op`` and the row, see the module's table; the columns that the event lacks."""

    op: str | None = None
    row: Row | None = None
    unchanged: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DebeziumPlan:
    """The columns, as a struct of ``spark_types`` in JSON, and what the settings say of values."""

    columns: str
    how: Meanings
    placeholder: str = PLACEHOLDER
    registry: RegistrySettings | None = None

    @property
    def row_type(self) -> str:
        """The struct of the columns, all nullable."""
        return plan_type(json.loads(self.columns))

    def decoder(self) -> "DebeziumDecoder":
        """Make the decoder."""
        return DebeziumDecoder(self)


class DebeziumDecoder:
    """Decodes records to changes by the rules of this module."""

    def __init__(self, plan: DebeziumPlan) -> None:
        self._of = json.loads(plan.columns)
        self._how = plan.how
        self._required = [one["name"] for one in self._of["fields"] if not one["nullable"]]
        self._placeholders = _forms(plan.placeholder)
        self._registry = None if plan.registry is None else ConnectRegistry(plan.registry)

    def change(self, key: bytes | str | None, value: bytes | None) -> Change:
        """What a record changes; any exception: it can't be decoded."""
        if value is None:
            return Change() if key is None else Change(DELETE, self._row_of_key(key))
        envelope, schemas = self._opened(value)
        if "op" not in envelope and _is_of_no_table(envelope):
            return Change()
        op = envelope.get("op")
        if op in _WITH_ROW:
            return self._row_after(envelope, _of_rows(schemas))
        if op == DELETE:
            return Change(op, self._row_before(envelope, _of_rows(schemas), key))
        if op in (TRUNCATE, MESSAGE):
            return Change(op)
        if op is None:
            raise Undecodable("it is no envelope of Debezium: it has no op")
        raise Undecodable(f"op is {as_text(op)[:40]}, which is none of Debezium's")

    def _row_after(self, envelope: dict[str, Any], schemas: dict[str, Schema] | None) -> Change:
        op, after = envelope["op"], envelope.get("after")
        if not isinstance(after, dict):
            raise Undecodable(f"it has no row: op is {op}, and after is no object")
        for name in self._required:
            if after.get(name) is None:
                raise Undecodable(f"required column {name} has no value")
        unchanged: list[str] = []
        if op != READ:
            after, unchanged = self._completed(after, envelope.get("before"))
        if unchanged and op == CREATE:
            raise Undecodable(
                f"column {unchanged[0]} has a value that the event lacks: the source's table needs "
                "REPLICA IDENTITY FULL"
            )
        return Change(op, columns_of(after, self._of, schemas, self._how), unchanged)

    def _completed(self, after: dict[str, Any], before: Any) -> tuple[dict[str, Any], list[str]]:
        """The row with what ``before`` has in the place of placeholders, and what isn't there."""
        found, unchanged = after, []
        for one in self._of["fields"]:
            name = one["name"]
            if not self._is_missing(after.get(name)):
                continue
            old = before.get(name) if isinstance(before, dict) else None
            if old is None or self._is_missing(old):
                old = None
                unchanged.append(name)
            found = {**found, name: old}
        return found, unchanged

    def _row_before(
        self,
        envelope: dict[str, Any],
        schemas: dict[str, Schema] | None,
        key: bytes | str | None,
    ) -> Row:
        before = envelope.get("before")
        if isinstance(before, dict):
            kept = {name: one for name, one in before.items() if not self._is_missing(one)}
            return columns_of(kept, self._of, schemas, self._how, self._names_of(key))
        if key is None:
            raise Undecodable("it deletes a row, and has neither before nor a key to find it by")
        return self._row_of_key(key)

    def _row_of_key(self, key: bytes | str) -> Row:
        try:
            columns, schemas = self._opened(key, is_key=True)
            return columns_of(columns, self._of, schemas, self._how)
        except Undecodable as error:
            raise Undecodable(f"the record's key, which says what it deletes: {error}") from error

    def _opened(self, value: bytes | str, *, is_key: bool = False) -> tuple[dict[str, Any], Any]:
        """The object of a value or a key, and the schemas of its fields; Undecodable."""
        if not value:
            raise Undecodable("it is empty")
        content = value.encode() if isinstance(value, str) else value
        if self._registry is not None and not (is_key and content[0]):
            found, schema = self._registry.value(content)
        else:
            found, schema = _from_json(value)
        if not isinstance(found, dict):
            raise Undecodable(f"it is no {'object' if is_key else 'envelope of Debezium'}")
        return found, None if schema is None else fields_of(schema)

    def _names_of(self, key: bytes | str | None) -> frozenset[str] | None:
        """The columns of a record's key; None if it has none, or is no object."""
        if key is None:
            return None
        try:
            return frozenset(self._opened(key, is_key=True)[0])
        except Undecodable:
            return None

    def _is_missing(self, value: Any) -> bool:
        if isinstance(value, str | list | dict | bytes):
            return value in self._placeholders
        return False


def _forms(placeholder: str) -> list[Any]:
    """How Debezium writes the placeholder in columns of texts, bytes, arrays and hstore."""
    as_bytes = bytes_of_placeholder(placeholder)
    text = as_bytes.decode(errors="replace")
    base64 = b64encode(as_bytes).decode()
    # Java's nameUUIDFromBytes is version 3 without a name space.
    digest = bytearray(_md5(as_bytes))
    digest[6], digest[8] = digest[6] & 0x0F | 0x30, digest[8] & 0x3F | 0x80
    return [
        *(text, base64, as_bytes.hex(), as_bytes),
        *([text], [base64], [str(UUID(bytes=bytes(digest)))]),
        memoryview(as_bytes).cast("b").tolist(),  # Java's bytes have a sign
        {text: text},
        json.dumps({text: text}, ensure_ascii=False, separators=(",", ":")),
    ]


def bytes_of_placeholder(setting: str) -> bytes:
    """The bytes of ``unavailable.value.placeholder``; ValueError for ``hex:`` before other text."""
    return bytes.fromhex(setting[4:]) if setting.startswith("hex:") else setting.encode()


def _md5(content: bytes) -> bytes:
    from hashlib import md5

    return md5(content, usedforsecurity=False).digest()


def _from_json(value: bytes | str) -> tuple[Any, Schema | None]:
    """The value, and its schema if it is there beside it; Undecodable."""
    try:
        found = from_json(value if isinstance(value, str) else value.decode())
    except UnicodeDecodeError as error:
        raise Undecodable("it isn't UTF-8") from error
    if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
        return found, None
    schema = found["schema"]
    if schema is not None and not isinstance(schema, dict):
        schema = {}
    return found["payload"], schema


def _of_rows(schemas: dict[str, Schema] | None) -> dict[str, Schema] | None:
    """The schemas of the columns, from that of an envelope."""
    if schemas is None:
        return None
    return fields_of(schemas.get("after") or schemas.get("before") or {})


def _is_of_no_table(envelope: dict[str, Any]) -> bool:
    """Whether an object is a heartbeat, or about a transaction or a schema."""
    names = envelope.keys()
    return names == _HEARTBEAT or names - {"ts_ms"} == _TRANSACTION or names >= _DDL


def unsupported(of: dict[str, Any]) -> str:
    """The first column whose type the decoder doesn't have; empty if it has all."""
    for one in of["fields"]:
        if not _is_supported(one["type"]):
            return str(one["name"])
    return ""


def _is_supported(of: Any) -> bool:
    if isinstance(of, str):
        return of not in ("variant", "void")
    if kind_of(of) == "struct":
        return not unsupported(of)
    parts = ("elementType", "keyType", "valueType")
    return all(_is_supported(of[one]) for one in parts if one in of)


def decode_changes(records: "DataFrame", plan: DebeziumPlan) -> "DataFrame":
    """Add row and change to records that have the columns of ``rows`` without them."""
    from pyspark.sql.types import ArrayType, StringType, StructField, StructType

    of = StructType.fromJson(json.loads(plan.row_type))
    unchanged = StructField("unchanged", ArrayType(StringType()))
    change = StructType([StructField("op", StringType()), unchanged])
    schema = StructType(
        [*records.schema.fields, StructField(rows.ROW, of), StructField(rows.CHANGE, change)]
    )

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        return changed_batches(batches, plan)

    return in_workers(records, work, schema)


@lru_cache(maxsize=8)
def _decoder_of(plan: DebeziumPlan) -> DebeziumDecoder:
    return plan.decoder()


def changed_batches(
    batches: "Iterator[pa.RecordBatch]", plan: DebeziumPlan
) -> "Iterator[pa.RecordBatch]":
    """Each batch with its rows and changes, and the errors of what can't be decoded."""
    decoder = _decoder_of(plan)
    for batch in batches:
        yield _changed(batch, decoder, plan)


def _changed(batch: "pa.RecordBatch", decoder: DebeziumDecoder, plan: DebeziumPlan) -> Any:
    import pyarrow as pa

    names = batch.schema.names
    given = {one: batch.column(names.index(one)).to_pylist() for one in (rows.KEY, rows.VALUE)}
    errors: list[str | None] = batch.column(names.index(rows.ERROR)).to_pylist()
    tombstones: list[bool] = batch.column(names.index(rows.TOMBSTONE)).to_pylist()
    found: list[Change] = []
    for place, (key, value) in enumerate(zip(*given.values(), strict=True)):
        change = Change()
        if errors[place] is None:
            try:
                change = decoder.change(key, value)
            except Exception as error:  # whatever garbage may raise
                errors[place] = line_of(error)
        found.append(change)
    row, unfit = to_arrow([one.row for one in found], arrow_type_of_text(plan.row_type))
    for place, reason in unfit.items():
        errors[place] = line_of(reason)
    found = [Change() if error else one for one, error in zip(found, errors, strict=True)]
    deletes = [
        before or one.op in (DELETE, TRUNCATE)
        for before, one in zip(tombstones, found, strict=True)
    ]
    made = {
        rows.ERROR: pa.array(errors, pa.string()),
        rows.TOMBSTONE: pa.array(deletes, pa.bool_()),
    }
    columns = [made.get(name, batch.column(place)) for place, name in enumerate(names)]
    ops = pa.array([one.op for one in found], pa.string())
    unchanged = pa.array([list(one.unchanged) for one in found], pa.list_(pa.string()))
    change_column = pa.StructArray.from_arrays([ops, unchanged], ["op", "unchanged"])
    return pa.RecordBatch.from_arrays(
        [*columns, row, change_column], names=[*names, rows.ROW, rows.CHANGE]
    )
