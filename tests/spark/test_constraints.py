"""What a table says of its constraints, as conditions over its columns."""

import json
from typing import Any, cast

from kwire.spark.decode.spark_types import field, struct
from kwire.spark.sinks.constraints import ASK_AGAIN_S, Constraints, constraints_of

TEXT = field("s", "string") | {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}}
INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "i < 3"}})}
TABLE = struct(
    [
        field("a`b", "integer", nullable=False),
        TEXT,
        field("i", "integer") | {"metadata": INVARIANT},
        field("st", struct([field("x", "string", nullable=False), field("y", "string")])),
    ]
)


def test_constraints_of_each_kind() -> None:
    """NOT NULL at any depth, lengths of texts, invariants of columns, and CHECK."""
    properties = {"delta.constraints.positive": "c > 0", "delta.appendOnly": "false"}
    found = constraints_of(TABLE, properties)
    assert [one.condition for one in found] == [
        "`a``b` IS NOT NULL",
        "coalesce(char_length(`s`) <= 3, true)",
        "i < 3",
        "`st`.`x` IS NOT NULL",
        "c > 0",
    ]
    assert found[-1].told == "the table refuses its row: CHECK positive (c > 0)"
    lenient = constraints_of(TABLE, {}, needs_parents=False)
    assert lenient[-1].condition == "`st` IS NULL OR `st`.`x` IS NOT NULL"


def test_columns_that_a_constraint_names() -> None:
    """By any case, also generated ones and what they are made of; none without a table."""
    made = field("day", "date") | {"metadata": {"delta.generationExpression": "CAST(At AS DATE)"}}
    table = struct([*TABLE["fields"], made])
    properties = {"delta.constraints.positive": "C > 0"}
    constraints = Constraints(lambda spark: (table, properties))
    columns = ["a`b", "c", "st", "day", "at", "other"]
    assert constraints.named(cast(Any, None), columns) == columns[:-1]
    assert Constraints(lambda spark: None).named(cast(Any, None), columns) == []


def test_a_table_without_constraints_costs_nothing() -> None:
    """Rows aren't made, and it is asked again after a while; without a table always."""
    asked: list[Any] = []
    now_s = 5.0
    answers: list[Any] = [None, None, (struct([field("a", "integer")]), {})]

    def describe(spark: Any) -> Any:
        asked.append(spark)
        return answers[min(len(asked), len(answers)) - 1]

    def never() -> Any:
        raise AssertionError

    constraints = Constraints(describe, lambda: now_s)
    for _ in range(5):
        assert constraints.refused(cast(Any, None), never) is None
    assert len(asked) == 3
    now_s += ASK_AGAIN_S
    assert constraints.refused(cast(Any, None), never) is None
    assert len(asked) == 4
