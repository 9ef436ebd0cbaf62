"""One Spark session and one broker for all tests of a lane, and topics nobody else uses."""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from kwire.testing.process import BrokerProcess

TIMEOUT_S = 60

# The demo kills the broker it runs on, so it is no test for a broker of somebody else.
collect_ignore = ["test_demo.py"] if os.environ.get("KWIRE_BOOTSTRAP") else []


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port``: of KWIRE_BOOTSTRAP, or of a kwire started for the run."""
    given = os.environ.get("KWIRE_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("kwire")) as process:
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
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def admin(broker: str) -> AdminClient:
    """An admin client."""
    return AdminClient({"bootstrap.servers": broker})


@pytest.fixture
def new_topic(admin: AdminClient) -> Iterator[Callable[..., str]]:
    """Creates topics, which are deleted after the test."""
    created: list[str] = []

    def create(partitions: int = 3, prefix: str = "spark", **config: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:10]}"
        # The rows' timestamps lie in the past: retention would delete them at its first check.
        new = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **config})
        admin.create_topics([new])[name].result(TIMEOUT_S)
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
        return reader.options(**options).load()

    return load
