"""The parts of a pipeline in a job of one's own: the snippet of docs/PIPELINES.md runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark_tests.pipelines import TIMEOUT_S, produce_values

PAGE = Path(__file__).parent.parent / "docs" / "PIPELINES.md"


@pytest.fixture
def job(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> tuple[str, Callable[[], None]]:
    """A topic, and the snippet as a function that runs it with this topic."""
    topic = new_topic(1)
    text = re.search(r"<!-- parts -->\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert text is not None
    snippet = text[1].replace('"orders"', f'"{topic}"')
    code = compile(snippet.replace("orders-group", f"{topic}-group"), PAGE.name, "exec")

    def run() -> None:
        exec(code, {"spark": spark, "bootstrap": broker, "directory": str(tmp_path)})

    return topic, run


def test_the_snippet(
    job: tuple[str, Callable[[], None]], broker: str, admin: AdminClient, tmp_path: Path
) -> None:
    """Rows are there once, also of a batch that runs again; the group has the batch's end."""
    topic, run = job

    def ids() -> list[int]:
        table = pyarrow.dataset.dataset(tmp_path / "orders").to_table(["id"])
        return sorted(table["id"].to_pylist())

    def committed() -> list[int]:
        asked = [ConsumerGroupTopicPartitions(f"{topic}-group")]
        [answer] = admin.list_consumer_group_offsets(asked).values()
        return [one.offset for one in answer.result(TIMEOUT_S).topic_partitions]

    produce_values(broker, topic, b'{"id": 1, "customer": "Ada"}', b"garbage", None)
    run()
    assert ids() == [1]
    assert committed() == [3]
    for name in ("0", ".0.crc"):  # as after a kill between the sink and Spark's note
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    produce_values(broker, topic, b'{"id": 2, "customer": "Grace"}')
    run()
    assert ids() == [1, 2]
    assert committed() == [4]
