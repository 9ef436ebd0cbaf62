"""``kwire pipeline run --once`` starts no Spark where a run would do nothing, and only there."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.spark.broker_view import BrokerView
from kwire.spark.driver_lock import driver_locks
from kwire.spark.incarnations import Incarnations
from kwire.spark.nothing_new import is_nothing_new
from kwire.spark.pipeline_file import read_pipeline
from kwire.spark.progress import ENDED, Progress, fingerprint, read_status
from kwire.spark.settings import DeadLetters, PipelineSettings
from kwire.spark.storage import LocalStorage
from kwire.testing import Kafka
from tests.spark.test_dead_letter_topics import retried
from tests.spark.test_pipeline_state import write_checkpoint

ONCE = ("pipeline", "run", "orders.toml", "--once")


@pytest.fixture
def settings(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineSettings:
    """A pipeline that has read its three records, and ended."""
    monkeypatch.chdir(tmp_path)
    kafka.topic("orders")
    kafka.produce("orders", [b"1", b"2", b"3"])
    assert main(["pipeline", "init", "orders.toml", "-b", kafka.bootstrap]) == 0
    found = replace(read_pipeline("orders.toml"), trigger="once")
    write_checkpoint(spark_of(found), {"orders": {"0": 0}}, {"orders": {"0": 3}}, finished=0)
    with BrokerView(found.source) as view:
        topic_id, _ = view.topics(["orders"])["orders"]
    Incarnations(storage_of(found)).note({"orders": topic_id})
    progress = Progress(storage_of(found), found.name)
    progress.set(state=ENDED, settings=fingerprint(found), records=3)
    return found


def storage_of(settings: PipelineSettings) -> LocalStorage:
    """The directory of the checkpoint."""
    return LocalStorage(Path(settings.checkpoint).absolute())


def spark_of(settings: PipelineSettings) -> Path:
    """Spark's own checkpoint."""
    return Path(settings.checkpoint, "spark-0")


def test_without_a_new_record_spark_is_not_started(
    settings: PipelineSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and exit code 0; the group gets its offsets, and the status is renewed."""
    before = read_status(storage_of(settings))
    capsys.readouterr()
    assert main(list(ONCE)) == 0
    said = "orders: nothing new to read, so Spark wasn't started\n"
    assert capsys.readouterr() == ("", said)
    assert main([*ONCE, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert "pyspark" not in sys.modules
    with BrokerView(settings.source) as view:
        assert view.committed("orders") == {("orders", 0): 3}
    after = read_status(storage_of(settings))
    assert before is not None
    assert after is not None
    assert after.seen_at_s > before.seen_at_s
    assert (after.state, after.records, after.ends) == (ENDED, 3, {"orders-0": 3})


def test_a_topic_that_nobody_has_written_to_starts_no_spark_again(
    settings: PipelineSettings, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of Spark that found no record has ended, and left no batch; a record is a reason."""
    kafka.topic("empty", partitions=2)
    source = replace(settings.source, topics=("empty",))
    found = replace(settings, source=source, checkpoint="empty-checkpoint")
    storage_of(found).write("spark-0/metadata", b'{"id": "q"}')
    Progress(storage_of(found), found.name).set(state=ENDED, settings=fingerprint(found))
    assert is_nothing_new(found)
    assert not is_nothing_new(replace(found, source=replace(source, topics=("empty", "missing"))))
    kafka.produce("empty", [b"1"])
    assert not is_nothing_new(found)


def planned_again(settings: PipelineSettings) -> None:
    """A batch is planned and not finished."""
    (spark_of(settings) / "commits/0").unlink()


def never_run(settings: PipelineSettings) -> None:
    """There is no checkpoint yet."""
    for one in ("commits/0", "offsets/0"):
        (spark_of(settings) / one).unlink()


def failed(settings: PipelineSettings) -> None:
    """The last run had an error after its batch."""
    Progress(storage_of(settings), "orders").set(state="failed", settings=fingerprint(settings))


def never_noted(settings: PipelineSettings) -> None:
    """The run was killed, or an earlier version has written the status."""
    text = (Path(settings.checkpoint) / "status.json").read_text()
    status = {name: one for name, one in json.loads(text).items() if name != "settings"}
    (Path(settings.checkpoint) / "status.json").write_text(json.dumps(status))


def created_again(settings: PipelineSettings) -> None:
    """The topic has another id than the one that was read."""
    path = Path(settings.checkpoint) / "topics.json"
    path.write_text(path.read_text().replace('"topic_id": "', '"topic_id": "0'))


def further(settings: PipelineSettings) -> None:
    """More was read than the topic has now."""
    offsets = spark_of(settings) / "offsets/0"
    offsets.write_text('v1\n{}\n{"orders": {"0": 4}}')


def of_another_version(settings: PipelineSettings) -> None:
    """The checkpoint can't be read."""
    (spark_of(settings) / "offsets/0").write_text('v2\n{}\n{"orders": {"0": 3}}')


@pytest.mark.parametrize(
    "change",
    [planned_again, never_run, failed, never_noted, created_again, further, of_another_version],
)
def test_a_doubt_starts_spark(
    settings: PipelineSettings, change: Callable[[PipelineSettings], None]
) -> None:
    """What a run would do, or say, isn't left undone."""
    assert is_nothing_new(settings)
    change(settings)
    assert not is_nothing_new(settings)


def test_a_new_record_a_new_partition_and_other_settings_start_spark(
    settings: PipelineSettings, kafka: Kafka
) -> None:
    """And a stream that runs until it is stopped, a cluster that is away, a remote checkpoint."""
    for other in (
        replace(settings, trigger="10 seconds"),
        replace(settings, group="others"),
        replace(settings, checkpoint="s3a://bucket/checkpoint"),
        replace(settings, sink=replace(settings.sink, path="elsewhere")),
        replace(settings, source=replace(settings.source, bootstrap_servers="127.0.0.1:1")),
    ):
        assert not is_nothing_new(other)
    remote = replace(settings, sink=replace(settings.sink, path="s3a://bucket/table"))
    storage = storage_of(settings)
    Progress(storage, settings.name).set(state=ENDED, settings=fingerprint(remote))
    assert not is_nothing_new(remote), "its lock can't be taken without Spark"
    Progress(storage, settings.name).set(state=ENDED, settings=fingerprint(settings))
    assert is_nothing_new(settings)
    kafka.produce("orders", [b"4"])
    assert not is_nothing_new(settings)


def test_a_topic_that_the_pattern_takes_since_starts_spark(
    settings: PipelineSettings, kafka: Kafka
) -> None:
    """Also while it is empty: the run notes its id."""
    source = replace(settings.source, topics=(), pattern="orders.*")
    by_pattern = replace(settings, source=source)
    progress = Progress(storage_of(settings), settings.name)
    progress.set(state=ENDED, settings=fingerprint(by_pattern))
    assert is_nothing_new(by_pattern)
    kafka.topic("orders-new")
    assert not is_nothing_new(by_pattern)


def test_records_of_retry_topics_that_are_due_are_sent_back_first(
    settings: PipelineSettings, kafka: Kafka
) -> None:
    """Then there is something to read; those that wait don't start Spark."""
    with_retries = replace(settings, dead_letters=DeadLetters("dead", retry_delays_s=(60.0,)))
    progress = Progress(storage_of(settings), settings.name)
    progress.set(state=ENDED, settings=fingerprint(with_retries))
    assert is_nothing_new(with_retries)
    retries = "orders-orders-retry-1"
    kafka.produce(retries, [retried("orders", "orders/0/1", 1, 1 << 62)])
    assert is_nothing_new(with_retries)
    kafka.produce(retries, [retried("orders", "orders/0/2", 1, 1 << 62)])
    assert is_nothing_new(with_retries)
    due = replace(with_retries, name="due")
    progress.set(settings=fingerprint(due))
    assert is_nothing_new(due)
    kafka.produce("due-orders-retry-1", [retried("due", "orders/0/2", 1, 0)])
    assert not is_nothing_new(due)
    assert kafka.records("orders")[-1].value == b"v"


def test_a_second_driver_is_refused(
    settings: PipelineSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by a run: another one is writing."""
    with driver_locks(settings, storage_of(settings)):
        capsys.readouterr()
        assert main(list(ONCE)) == 1
    assert "another driver writes to" in capsys.readouterr().err
