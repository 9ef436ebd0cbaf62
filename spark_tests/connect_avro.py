"""Records as Connect's AvroConverter writes them, from those of the JSON converter with schemas.

The Avro schemas are those of Confluent's AvroData: names and parameters of Connect beside Avro's
logical types, null first in unions, and a record in full where it is used first.
"""

import json
from base64 import b64decode
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.debezium import CONNECT, Record

_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    **{one: one for one in ("float", "double", "boolean", "string", "bytes")},
}
_LOGICAL = {
    f"{CONNECT}Decimal": "decimal",
    f"{CONNECT}Date": "date",
    f"{CONNECT}Time": "time-millis",
    f"{CONNECT}Timestamp": "timestamp-millis",
}


def avro_schema(of: dict[str, Any], known: set[str] | None = None) -> Any:
    """The Avro schema of a schema of Connect; ``known`` names the records that are there."""
    known = set() if known is None else known
    found = _avro_type(of, known)
    return ["null", found] if of.get("optional") else found


def _avro_type(of: dict[str, Any], known: set[str]) -> Any:
    kind = of["type"]
    if kind == "struct":
        return _record(of, known)
    if kind == "array":
        return {"type": "array", "items": avro_schema(of["items"], known)}
    if kind == "map" and of["keys"]["type"] == "string":
        return {"type": "map", "values": avro_schema(of["values"], known)}
    if kind == "map":
        fields = [
            {"name": one, "type": avro_schema(of[f"{one}s"], known)} for one in ("key", "value")
        ]
        entry = {"type": "record", "name": f"MapEntry{len(known)}", "fields": fields}
        known.add(entry["name"])
        return {"type": "array", "items": entry | {"connect.internal.type": "MapEntry"}}
    return _scalar(of)


def _record(of: dict[str, Any], known: set[str]) -> Any:
    name = of.get("name", "")
    record = name or f"ConnectDefault{len(known)}"
    if record in known:
        return record
    known.add(record)
    fields = []
    for one in of["fields"]:
        default = {"default": None} if one.get("optional") else {}
        fields.append({"name": one["field"], "type": avro_schema(one, known), **default})
    return {"type": "record", "name": record, "connect.name": name, "fields": fields}


def _scalar(of: dict[str, Any]) -> Any:
    name = of.get("name", "")
    found: dict[str, Any] = {"type": _TYPES[of["type"]]}
    if name:
        found |= {"connect.version": 1, "connect.name": name}
    if parameters := of.get("parameters"):
        found["connect.parameters"] = parameters
    if logical := _LOGICAL.get(name):
        found["logicalType"] = logical
    if name == f"{CONNECT}Decimal":
        precision = int(parameters.get("connect.decimal.precision", 64))
        found |= {"scale": int(parameters["scale"]), "precision": precision}
    return found if len(found) > 1 else found["type"]


def avro_value(value: Any, of: dict[str, Any]) -> Any:
    """A value of the JSON converter as Avro's writer takes it: bytes are no base64."""
    if value is None:
        return None
    kind = of["type"]
    if kind == "struct":
        return {one["field"]: avro_value(value.get(one["field"]), one) for one in of["fields"]}
    if kind == "array":
        return [avro_value(one, of["items"]) for one in value]
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        items = [(one, avro_value(other, of["values"])) for one, other in pairs]
        is_text = of["keys"]["type"] == "string"
        return dict(items) if is_text else [{"key": one, "value": other} for one, other in items]
    return b64decode(value) if kind == "bytes" else value


class AvroConverter:
    """Writes records with the ids of their schemas in a registry."""

    def __init__(self, url: str) -> None:
        self._client = SchemaRegistryClient({"url": url})
        self._serializers: dict[str, Any] = {}

    def record(self, record: Record, topic: str = "shop") -> Record:
        """The same key and value in Avro."""
        return self._written(record[0], topic, "key"), self._written(record[1], topic, "value")

    def _written(self, content: bytes | None, topic: str, part: str) -> bytes | None:
        if content is None:
            return None
        whole = json.loads(content)
        schema = json.dumps(avro_schema(whole["schema"]))
        serializer = self._serializers.get(schema)
        if serializer is None:
            serializer = AvroSerializer(self._client, schema)
            self._serializers[schema] = serializer
        field = MessageField.KEY if part == "key" else MessageField.VALUE
        value = avro_value(whole["payload"], whole["schema"])
        found: bytes = serializer(value, SerializationContext(topic, field))
        return found
