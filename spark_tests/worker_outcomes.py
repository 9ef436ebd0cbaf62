"""What the Python workers make of values, without Spark: plans, and the outcome of each value."""

import random
from typing import Any

import pyarrow as pa

from kwire.schemas.wire_format import header
from kwire.spark import rows
from kwire.spark.decode.in_python import decoded_batches
from kwire.spark.decode.options import options_of
from kwire.spark.decode.plans import given_plan, registry_plan
from kwire.spark.settings import Decode
from kwire.testing.schema_registry import SchemaRegistry


def outcomes(plan: Any, values: list[bytes | None], topic: str = "orders") -> list[Any]:
    """Each value's row, or its error."""
    count = len(values)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([topic] * count),
            pa.array(values, pa.binary()),
            pa.nulls(count, pa.string()),
        ],
        names=[rows.TOPIC, rows.VALUE, rows.ERROR],
    )
    [found] = decoded_batches(iter([batch]), plan)
    assert found.num_rows == count
    listed = found.to_pylist()
    for one in listed:
        assert one[rows.ERROR] is None or one[rows.ROW] is None
        assert one[rows.ROW] is None or one[rows.VALUE] is not None
    return [one[rows.ERROR] or one[rows.ROW] for one in listed]


def given(format_: str, **options: Any) -> Any:
    """A plan without a registry."""
    plan = given_plan(options_of(Decode(format_, options=options)))
    assert plan is not None
    return plan


def from_registry(server: SchemaRegistry, format_: str, *topics: str, **options: Any) -> Any:
    """A plan of the subjects' newest schemas, asked for anew."""
    settings = Decode(format_, registry=server.url, options=options)
    return registry_plan(options_of(settings), topics or ("orders",))


def survives_random_bytes(plan: Any, topic: str, number: int, good: bytes) -> bool:
    """Whether many random values, and good ones with some bytes changed, each have an outcome."""
    chance = random.Random(number)
    values: list[bytes | None] = []
    for _ in range(2000):
        body = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            body[chance.randrange(5, len(body))] = chance.randrange(256)
        values.append(bytes(body))
        values.append(header(number) + chance.randbytes(chance.randrange(60)))
        values.append(chance.randbytes(chance.randrange(30)))
    found = outcomes(plan, values, topic)
    return sum(isinstance(one, str) for one in found) > 1000
