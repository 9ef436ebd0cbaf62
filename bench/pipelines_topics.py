"""``python -m bench.pipelines_topics BOOTSTRAP REGISTRY DIRECTORY RECORDS``, in Spark's lane.

It writes the same orders into three topics: as JSON, and in a registry's wire format as Avro and as
Protobuf. Each has a small topic beside it, with which the jobs warm up. The directory gets the
module ``order_pb2`` that protoc makes of the Protobuf schema, for what is written by hand.
"""

import datetime
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

FORMATS = ("json", "avro", "protobuf")
WARM_RECORDS = 100_000
"""The most records to warm up with; a tenth of the others if these are fewer."""
PARTITIONS = 4
TIMEOUT_S = 120
HEADER_BYTES = 5
"""Of the registry's wire format: a zero byte and the schema's id."""
FIRST = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "country", "type": "string"},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; string country = 4;
  google.protobuf.Timestamp placed = 5; repeated Line lines = 6; optional string note = 7;
}
message Line { string sku = 1; int32 count = 2; }
"""
MODULE = "order_pb2"
MESSAGE = "Order"


def topic_of(form: str, *, is_warm: bool) -> str:
    """The topic of a format; the small one to warm up with, if asked for."""
    return f"orders-{form}-warm" if is_warm else f"orders-{form}"


def main() -> None:
    """Write all topics."""
    bootstrap, url, directory, records = sys.argv[1:]
    sys.path.insert(0, compile_proto(Path(directory)))
    ids = {
        form: SchemaRegistryClient({"url": url}).register_schema(
            f"{topic_of(form, is_warm=is_warm)}-value", Schema(text, form.upper())
        )
        for form, text in (("avro", json.dumps(AVRO)), ("protobuf", PROTO))
        for is_warm in (True, False)
    }
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for is_warm, count in ((True, min(WARM_RECORDS, int(records) // 10)), (False, int(records))):
        topics = {form: topic_of(form, is_warm=is_warm) for form in FORMATS}
        made = admin.create_topics([NewTopic(one, PARTITIONS, 1) for one in topics.values()])
        for future in made.values():
            future.result(TIMEOUT_S)
        fill(bootstrap, topics, ids, count)


def compile_proto(directory: Path) -> str:
    """Make Python of the Protobuf schema; the directory of the module."""
    (directory / "order.proto").write_text(PROTO, encoding="utf-8")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}"]
    subprocess.run([*protoc, f"--python_out={directory}", "order.proto"], check=True)
    return str(directory)


def fill(bootstrap: str, topics: dict[str, str], ids: dict[str, int], records: int) -> None:
    """Write each order into each topic, of about 200 bytes as JSON."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    encode = {
        "json": lambda order: json.dumps(order, separators=(",", ":"), default=_as_text).encode(),
        "avro": _avro(ids["avro"]),
        "protobuf": _protobuf(ids["protobuf"]),
    }
    for n, order in enumerate(orders(records)):
        for form, topic in topics.items():
            value = encode[form](order)
            while True:
                try:
                    producer.produce(topic, value, b"customer-%d" % (n % 1000))
                    break
                except BufferError:
                    producer.poll(0.1)
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("records could not be written")


def orders(records: int) -> Iterator[dict[str, Any]]:
    """The orders, the same each time."""
    chance = random.Random(1)
    for n in range(records):
        yield {
            "id": n,
            "customer": f"customer-{chance.randrange(100_000)}",
            "amount": round(chance.random() * 500, 2),
            "country": chance.choice(("DE", "FR", "US")),
            "placed": FIRST + datetime.timedelta(days=n % 28, minutes=n % 60),
            "lines": [{"sku": f"sku-{chance.randrange(1000)}", "count": 1 + n % 5}],
            "note": "leave it at the door",
        }


def _as_text(time: datetime.datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _header(number: int) -> bytes:
    return b"\x00" + number.to_bytes(HEADER_BYTES - 1, "big")


def _avro(number: int) -> Any:
    schema, start = fastavro.parse_schema(AVRO), _header(number)

    def encode(order: dict[str, Any]) -> bytes:
        stream = io.BytesIO()
        stream.write(start)
        fastavro.schemaless_writer(stream, schema, order)
        return stream.getvalue()

    return encode


def _protobuf(number: int) -> Any:
    import importlib

    kind = getattr(importlib.import_module(MODULE), MESSAGE)
    start = _header(number) + b"\x00"  # the first message of the schema

    def encode(order: dict[str, Any]) -> bytes:
        encoded: bytes = kind(**order).SerializeToString()
        return start + encoded

    return encode


if __name__ == "__main__":
    main()
