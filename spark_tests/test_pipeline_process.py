"""``kwire pipeline run`` as a process: killed, stopped by a signal, and on a cluster."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kwire.testing.waiting import wait_until
from spark_tests.chaos.trial import Trial
from spark_tests.environment import JVM, QUICK_JVM
from spark_tests.pipelines import files, numbers, produce_json, settings_of
from spark_tests.processes import START_TIMEOUT_S, StandaloneCluster, kwire, process, toml

STOCK = os.environ["KWIRE_SPARK_LANE"] == "stock"


@pytest.mark.both_lanes
@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.long)])
def test_each_record_is_there_once_after_kills_of_everything(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    """The driver; with two kills also the broker or, where it isn't ours, a Python worker.

    `make spark-chaos` is the long run, with all of them and into each sink. The demo, which is a
    test of the stock lane, kills the broker too.
    """
    with Trial(
        "parquet" if STOCK else "delta-rs",
        tmp_path / "trial",
        records=1500 * kills,
        kills=kills,
        seed=16,
        has_session=True,
        step_timeout_s=START_TIMEOUT_S,
        bootstrap=os.environ.get("KWIRE_BOOTSTRAP", ""),
    ) as trial:
        assert trial.run().kills.total() == kills


@pytest.mark.long
def test_sigterm_ends_after_the_batch(
    broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Nothing is planned and unfinished then; ``status`` tells how far it is, without Spark."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 3000)
    changes = {"trigger": "0 seconds", "source__max_offsets_per_trigger": 100}
    settings = settings_of(broker, topic, tmp_path, **changes)
    file, log = tmp_path / "pipeline.toml", tmp_path / "log"
    file.write_text(toml(settings))
    with process(kwire("run", file), log) as child:
        wait_until(
            lambda: (tmp_path / "table").exists() and files(tmp_path),
            timeout_s=START_TIMEOUT_S,
            what="a file",
        )
        child.send_signal(signal.SIGTERM)
        assert child.wait(START_TIMEOUT_S) == 0, log.read_text()
    [line] = [one for one in log.read_text().splitlines() if "records in" in one]
    assert line.startswith(f"{settings['name']}: ")
    checkpoint = tmp_path / "checkpoint" / "spark-0"
    plans = [one.name for one in (checkpoint / "offsets").iterdir() if one.name.isdigit()]
    commits = [one.name for one in (checkpoint / "commits").iterdir() if one.name.isdigit()]
    assert len(plans) - len(commits) <= 1
    done = subprocess.run(
        kwire("status", file, "--json"),
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    status = json.loads(done.stdout)
    [row] = status["partitions"]
    assert row["next"] == row["committed"] == len(numbers(tmp_path))
    assert row["lag"] == 3000 - row["next"]
    assert status["state"] == "stopped"


@pytest.mark.skipif(not STOCK, reason="what processes print; one lane is enough")
def test_a_run_prints_its_own_lines(
    broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """What Spark prints is in a file, whose end a failure shows with the offsets of the batch."""
    topic = new_topic(1)
    produce_json(broker, topic, 0, 10)
    file, log = tmp_path / "pipeline.toml", tmp_path / "checkpoint" / "logs" / "run.log"
    settings = settings_of(broker, topic, tmp_path)
    name = settings["name"]

    def run() -> tuple[int, list[str]]:
        file.write_text(toml(settings))
        command = kwire("run", file, "--once")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines()

    code, [first, last] = run()
    assert code == 0
    assert first.startswith(f"kwire: starting Spark, which writes its messages to {log};")
    assert last.startswith(f"{name}: 10 records in 1 batches, ")
    assert log.read_text(), "what Java says of its modules, at least"
    assert run() == (0, [f"{name}: nothing new to read, so Spark wasn't started"])
    produce_json(broker, topic, 10, 20)
    settings["transform"] = [{"sql": "SELECT *, raise_error('too odd') AS e FROM rows"}]
    code, [_, failure, title, *end] = run()
    assert code == 1
    assert failure.startswith(f"kwire: pipeline {name} has failed: ")
    assert f"in batch 1 ({topic}-0 offsets 10 to 19), with which the next run" in failure
    assert title == f"kwire: the end of {log}:"
    assert end
    assert all(one.startswith("  ") for one in end)


@pytest.mark.skipif(not STOCK, reason="six starts of Java; one lane is enough")
def test_spark_submit_to_a_cluster(
    broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A real master and two workers, of Spark's own classes, with what submit-args prints."""
    topic = new_topic(2)
    produce_json(broker, topic, 0, 1000, partitions=2)
    file, log = tmp_path / "pipeline.toml", tmp_path / "log"
    file.write_text(toml(settings_of(broker, topic, tmp_path)))
    with StandaloneCluster(tmp_path) as cluster:
        done = subprocess.run(
            kwire("submit-args", file, "--master", cluster.url),
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=True,
        )
        options = f"--conf spark.executor.extraJavaOptions='{os.environ.get(JVM, QUICK_JVM)}'"
        options += " --conf spark.executor.memory=512m"
        submit = f"{cluster.bin}/spark-submit {options} {done.stdout}"
        with process(["bash", "-c", submit], log, **cluster.environment) as child:
            assert child.wait(START_TIMEOUT_S) == 0, log.read_text()
    assert numbers(tmp_path) == list(range(1000))
    executors = [one for one in (tmp_path / "work").glob("app-*/*") if one.is_dir()]
    assert len(executors) == 2, "both workers had an executor"
