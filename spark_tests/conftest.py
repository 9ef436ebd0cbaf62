"""One Spark session and one broker for all tests of a lane, and topics nobody else uses."""

import os
import tracemalloc  # noqa: F401 - pytest's hook imports it, halfway if garbage is collected then
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from kwire.spark.sinks import delta, iceberg_table
from kwire.testing.process import BrokerProcess
from spark_tests import java_names
from spark_tests.commands import Commands
from spark_tests.rows import KAFKA_QUICK_FETCH, TIMEOUT_S
from tests.support.topics import create_topics

TABLE_FORMATS = delta.SPARK_SETTINGS | {
    "spark.sql.extensions": f"{delta.EXTENSION},{iceberg_table.EXTENSION}",
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 tasks for each look at a small table
}

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Most queries of tests have few rows: to make Java of them, compile it, and plan them again
between stages takes longer than to run them. What runs in processes of its own does all that."""

SETTINGS = {"log.cleaner.backoff.ms": "100"}
"""Of the broker: tests that wait for compaction need not wait for long."""

java_names.remember()

# The demo kills the broker it runs on, so it is no test for a broker of somebody else. `make demo`
# runs it in the stock lane, so that is where its minute is spent.
_IS_DEMO_RUN = os.environ["KWIRE_SPARK_LANE"] == "stock" and not os.environ.get("KWIRE_BOOTSTRAP")
collect_ignore = [] if _IS_DEMO_RUN else ["test_demo.py"]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port``: of KWIRE_BOOTSTRAP, or of a kwire started for the run."""
    given = os.environ.get("KWIRE_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("kwire"), SETTINGS) as process:
        yield process.bootstrap
        log = process.log()
    assert "bug in" not in log, log


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with the lane's jars."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("kwire")
        .config("spark.jars", os.environ["KWIRE_SPARK_JARS"])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.daemon.module", "spark_tests.python_daemon")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    for key, value in INTERPRETED.items():
        builder = builder.config(key, value)
    if os.environ["KWIRE_SPARK_LANE"] == "stock":  # which has the jars of Delta and Iceberg
        for key, value in TABLE_FORMATS.items():
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for form in ("short", "long"):  # else Spark looks through the stack for each RDD
        session.sparkContext.setLocalProperty(f"callSite.{form}", "a test")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def admin(broker: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": broker})


@pytest.fixture
def new_topic(broker: str, admin: AdminClient) -> Iterator[Callable[..., str]]:
    """Creates topics, which are deleted after the test."""
    created: list[str] = []

    def create(partitions: int = 3, prefix: str = "spark", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:10]}"
        # The rows' timestamps lie in the past: retention would delete them at its first check.
        create_topics(broker, name, partitions=partitions, **{"retention.ms": "-1", **config})
        created.append(name)
        return name

    yield create
    existing = admin.list_topics(timeout=TIMEOUT_S).topics
    doomed = [name for name in created if name in existing]
    if doomed:
        for future in admin.delete_topics(doomed).values():
            future.result(TIMEOUT_S)


@pytest.fixture
def read(spark: SparkSession, broker: str) -> Callable[..., DataFrame]:
    """A batch read with the options given."""

    def load(**options: str) -> DataFrame:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker)
        return reader.options(**KAFKA_QUICK_FETCH, **options).load()

    return load


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    """The commands for the pipeline file ``p.toml`` of the test's directory."""
    return Commands(tmp_path / "p.toml", capsys)
