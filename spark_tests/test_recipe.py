"""The PySpark recipe of docs/TESTING.md runs as it stands."""

from pyspark.sql import SparkSession

from kwire.testing import Kafka
from tests.testing.recipes import recipes


def test_the_recipe(spark: SparkSession) -> None:
    """With the stock connector, batch reads and writes."""
    [(name, text)] = recipes("recipe-of-spark").items()
    namespace: dict[str, object] = {}
    exec(compile(text, "docs/TESTING.md", "exec"), namespace)
    with Kafka() as kafka:
        namespace[f"test_{name}"](kafka, spark)  # type: ignore[operator]
