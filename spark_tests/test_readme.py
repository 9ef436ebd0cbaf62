"""The PySpark snippet of the README runs as it stands, but for the address."""

import re
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kwire.testing import Kafka
from spark_tests.rows import TIMEOUT_S

README = Path(__file__).parent.parent / "README.md"


def test_the_snippet(spark: SparkSession, tmp_path: Path) -> None:
    """It reads all records of the topic."""
    text = README.read_text(encoding="utf-8")
    [snippet] = [
        one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "readStream" in one
    ]
    with Kafka() as kafka:
        kafka.topic("orders", partitions=2, records=[str(n) for n in range(100)])
        names: dict[str, object] = {"spark": spark}
        exec(snippet.replace("127.0.0.1:9092", kafka.bootstrap), names)
        orders = names["orders"]
        assert isinstance(orders, DataFrame)
        writing = orders.writeStream.format("memory").queryName("orders_of_the_readme")
        query = (
            writing.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(TIMEOUT_S)
        assert spark.table("orders_of_the_readme").count() == 100
