"""A table is asked about the types of rows once, not for every batch."""

from typing import Any, cast

from kwire.spark.sinks.remembered import ASK_AGAIN_S, Remembered

NO_SPARK = cast(Any, None)


class Table:
    """A sink that counts what it is asked; odd columns are misfits."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def fit(self, spark: Any, schema: Any) -> list[Any]:
        """Only the name of the columns says what they are."""
        self.asked.append(schema)
        return ["a misfit"] if "odd" in schema else []


def test_an_answer_is_kept_for_the_same_columns() -> None:
    """Also if some are misfits; other columns are asked for anew, and all after a while."""
    table, now_s = Table(), 5.0
    remembered = Remembered(cast(Any, table), lambda: now_s)

    def misfits(schema: str) -> list[Any]:
        return remembered.misfits(NO_SPARK, cast(Any, schema))

    assert [misfits(one) for one in ("odd", "odd", "even", "even")] == [*[["a misfit"]] * 2, [], []]
    assert table.asked == ["odd", "even"]
    assert misfits("odd") == ["a misfit"]
    now_s += ASK_AGAIN_S - 0.5
    assert misfits("odd") == ["a misfit"]
    assert table.asked == ["odd", "even", "odd"]
    now_s += 1
    assert misfits("odd") == ["a misfit"]
    assert len(table.asked) == 4
