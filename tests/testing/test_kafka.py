"""``kwire.testing.Kafka``: a broker for a test, in a thread, with helpers."""

import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata import embedded
from kwire.metadata.embedded import EmbeddedStore
from kwire.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from kwire.testing import BrokerFailed, Kafka, KafkaProcess, Record
from kwire.testing.asking import Asker, NoAnswer
from kwire.testing.faulty_disk import FaultyDisk
from kwire.testing.helpers import Helpers
from kwire.testing.waiting import WaitTimeout, wait_until


def consume(kafka: Helpers, topic: str, count: int, group: str = "billing") -> list[bytes | None]:
    """The values of records that a consumer gets, and whose offsets it commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, timeout=10)
        consumer.commit(asynchronous=False)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def produce(kafka: Helpers, topic: str, *values: str) -> None:
    """Write records with a stock client."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(10) == 0


def test_a_stock_client_reads_what_the_helper_wrote_and_the_other_way_round() -> None:
    """The helpers and clients see the same topic."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["first", b"second", ("key", "third")])
        assert consume(kafka, "orders", 3) == [b"first", b"second", b"third"]
        produce(kafka, "orders", "fourth")
        assert [(r.key, r.value) for r in kafka.wait_for_records("orders", 4)] == [
            (None, b"first"),
            (None, b"second"),
            (b"key", b"third"),
            (None, b"fourth"),
        ]


def test_records_keep_what_they_were_given() -> None:
    """Headers, partitions, timestamps and tombstones."""
    new = Record(b"v", b"k", (("h", b"1"), ("n", None)), 2, 1_700_000_000_000)
    with Kafka() as kafka:
        kafka.topic("orders", partitions=3, records=[new, ("gone", None)])
        found = {record.key: record for record in kafka.records("orders")}
        assert found[b"k"] == new._replace(offset=0)
        assert found[b"gone"].value is None


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ("hello", "records is a list of records, not one of them: ['hello']"),
        ([{"a": 1}], "a key or a value is str, bytes or None, not {'a': 1}: use json.dumps()"),
        ([(7, "v")], "a key or a value is str, bytes or None, not 7: use json.dumps()"),
    ],
)
def test_what_is_no_record(records: Any, said: str) -> None:
    """One line says so, and no topic is made."""
    with Kafka() as kafka:
        with pytest.raises(TypeError, match=re.escape(said)):
            kafka.topic("orders", records=records)
        with pytest.raises(KafkaError, match="orders"):
            kafka.records("orders")


def test_records_with_one_key_share_a_partition() -> None:
    """Records without a key take turns."""
    with Kafka() as kafka:
        kafka.topic("orders", partitions=3, records=[("k", str(n)) for n in range(9)])
        assert len({record.partition for record in kafka.records("orders")}) == 1
        kafka.topic("plain", partitions=3, records=[str(n) for n in range(9)])
        assert [record.partition for record in kafka.records("plain")] == sorted([0, 1, 2] * 3)


def test_a_topic_that_exists_gets_more_records() -> None:
    """So a fixture and its test may both call ``topic``; other errors are told."""
    with Kafka() as kafka:
        assert kafka.topic("orders", records=["a"]) == "orders"
        kafka.topic("orders", records=["b"])
        assert [record.value for record in kafka.records("orders")] == [b"a", b"b"]
        with pytest.raises(KafkaError, match=r"no\.such"):
            kafka.topic("bad", configs={"no.such": 1})
        with pytest.raises(KafkaError) as missing:
            kafka.records("missing")
        assert missing.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_has_the_partitions_that_the_settings_say() -> None:
    """Unless the test says how many."""
    with Kafka({"num.partitions": 3}) as kafka:
        kafka.topic("orders")
        kafka.topic("bills", partitions=2)
        assert "bills (2 partitions)" in kafka.describe()
        assert "orders (3 partitions)" in kafka.describe()
    with Kafka() as kafka:
        kafka.topic("orders")
        assert "orders (1 partition)" in kafka.describe()


def test_a_mistyped_topic_is_told_the_right_one() -> None:
    """The traceback ends at the line of the test."""
    with Kafka() as kafka:
        kafka.topic("orders")
        for ask in (kafka.records, partial(kafka.produce, records=["1"])):
            with pytest.raises(KafkaError, match="no topic order: did you mean orders") as caught:
                ask("order")
            assert len(caught.traceback.filter(caught)) == 1
        with pytest.raises(KafkaError, match=r"there is no topic bills$"):
            kafka.records("bills")


def test_the_lag_of_a_group() -> None:
    """Unknown before the first commit; partitions without a commit count whole."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a", "b", "c"])
        assert kafka.lag("billing") is None
        assert kafka.lag("billing", "orders") == 3
        consume(kafka, "orders", 2)
        kafka.wait_for_lag("billing", 1)
        consume(kafka, "orders", 1)
        kafka.wait_for_lag("billing", 0, topic="orders")
        with pytest.raises(WaitTimeout, match="group 'nobody' to have a lag of 0"):
            kafka.wait_for_lag("nobody", timeout_s=0)


def test_the_lag_is_known_as_soon_as_the_offsets_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It isn't taken for unknown before, and any other error is raised."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["a", "b", "c"])
        consume(kafka, "orders", 2)
        kafka.restart()
        errors = [
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ]
        ask = Asker.ask

        def answer(*request: Any) -> Any:
            if errors and request[4] is OffsetFetchResponse:
                refusal = OffsetFetchResponseGroup(group_id="billing", error_code=errors.pop(0))
                return OffsetFetchResponse(groups=[refusal])
            return ask(*request)

        monkeypatch.setattr(Asker, "ask", answer)
        with pytest.raises(KafkaError, match="group 'billing'"):
            kafka.lag("billing")
        errors.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert kafka.lag("billing") == 1
        errors.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        kafka.wait_for_lag("billing", 1)


async def test_waiting_in_a_coroutine_leaves_the_event_loop_to_others() -> None:
    """The records that are awaited come from another task of the same loop (trio)."""
    with Kafka() as kafka:
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                kafka.topic("orders", records=["a"])

            nursery.start_soon(write)
            assert len(await kafka.wait_for_records_async("orders", 1)) == 1
            kafka.restart()
            assert kafka.lag("billing", "orders") == 1


def test_a_restart_keeps_address_data_and_groups(kafka_class: type[Kafka | KafkaProcess]) -> None:
    """Also after a kill; both kinds of brokers."""
    with kafka_class() as kafka:
        address = kafka.bootstrap
        kafka.topic("orders", partitions=2, records=["a", "b"])
        consume(kafka, "orders", 2)
        kafka.restart()
        assert kafka.bootstrap == address
        assert len(kafka.records("orders")) == 2
        kafka.kill()
        with pytest.raises(Exception, match="does not answer"):
            kafka.lag("billing")
        kafka.restart()
        kafka.wait_for_lag("billing", 0)
        assert len(kafka.records("orders")) == 2


@pytest.fixture(params=[Kafka, KafkaProcess])
def kafka_class(request: pytest.FixtureRequest) -> type[Kafka | KafkaProcess]:
    """Both kinds of brokers."""
    found: type[Kafka | KafkaProcess] = request.param
    return found


def test_nothing_is_left_on_the_disk(
    kafka_class: type[Kafka | KafkaProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no thread either."""
    monkeypatch.setenv("KWIRE_TEST_DIR", str(tmp_path))
    before = set(threading.enumerate())
    with kafka_class() as kafka:
        kafka.topic("orders", records=["a"])
        assert kafka.data_dir.is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [t for t in set(threading.enumerate()) - before if "broker" in t.name] == []


def test_the_log_of_a_process_lies_where_the_next_run_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test process that is killed removes nothing itself; a log can be read to its end."""
    monkeypatch.setenv("KWIRE_TEST_DIR", str(tmp_path / "tests"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "others"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "others").mkdir()
    with KafkaProcess(data_dir=tmp_path / "data") as kafka:
        assert list((tmp_path / "others").iterdir()) == []
        kafka.stop()
        assert "stopped cleanly" in kafka.log()
    assert list((tmp_path / "tests").iterdir()) == []
    assert (tmp_path / "data").is_dir(), "the directory was given"


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """What a live process uses stays."""
    script = (
        "import os, sys; from kwire.testing.directories import TestDirectory; "
        "made = TestDirectory(); made.path.mkdir(); sys.argv[1:] or os.kill(os.getpid(), 9); "
        "made.remove()"
    )
    environment = {"KWIRE_TEST_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KWIRE_TEST_DIR", str(tmp_path))
        with Kafka() as kafka:
            subprocess.run([sys.executable, "-c", script], env=environment, check=False)
            assert len(list(tmp_path.iterdir())) == 2
            subprocess.run([sys.executable, "-c", script, "on"], env=environment, check=True)
            assert list(tmp_path.iterdir()) == [kafka.data_dir.parent]


def test_a_given_directory_is_kept_and_closed_cleanly(tmp_path: Path) -> None:
    """So that another broker may be started on it."""
    with Kafka(data_dir=tmp_path) as kafka:
        kafka.topic("orders", records=["a"])
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with Kafka(data_dir=tmp_path) as kafka:
        assert [record.value for record in kafka.records("orders")] == [b"a"]


def test_a_reset_leaves_nothing_but_the_address() -> None:
    """Topics, groups, settings and faults of the test before are gone."""
    with Kafka({"num.partitions": 3}) as kafka:
        address = kafka.bootstrap
        kafka.topic("orders", records=["a"])
        consume(kafka, "orders", 1)
        kafka.faults.cut("Metadata")
        kafka.reset({})
        assert kafka.bootstrap == address
        assert kafka.describe() == "no topics"
        assert kafka.lag("billing") is None
        assert list(kafka.faults) == []
        produce(kafka, "orders", "b")
        assert [record.partition for record in kafka.records("orders")] == [0]


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    """In one line, with what the broker would say."""
    with pytest.raises(BrokerFailed, match=r"num\.partitions"):
        Kafka({"num.partitions": -1}).start()
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerFailed, match=r"can't start: .*file"):
        Kafka(data_dir=tmp_path / "file").start()
    with pytest.raises(ValueError, match=r"log.dirs is chosen by kwire.testing"):
        Kafka({"log.dirs": "/tmp"})


def test_settings_that_nobody_knows() -> None:
    """Each is named; one for a single listener, or of Kafka's plugins, is none of them."""
    with pytest.raises(ValueError, match="there is no setting") as raised:
        Kafka({"num.partitons": 3, "no.name.like.this.at.all": 1})
    assert str(raised.value).splitlines() == [
        "there is no setting num.partitons; did you mean num.partitions?",
        "there is no setting no.name.like.this.at.all",
    ]
    prefix = "listener.name.clients."
    with pytest.raises(ValueError, match=f"no setting {prefix}ssl.keystor"):
        KafkaProcess({f"{prefix}ssl.keystor": "x"})
    Kafka({f"{prefix}ssl.keystore.type": "PEM", "rsm.config.chunk.size": 1})
    with Kafka() as kafka, pytest.raises(ValueError, match=r"did you mean num\.partitions"):
        kafka.reset({"num.partitons": 3})


def test_a_start_that_hangs_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of waiting for ever; nothing is left when the start goes on after all."""
    monkeypatch.setenv("KWIRE_TEST_DIR", str(tmp_path))
    released = threading.Event()

    class Hanging(FaultyDisk):
        def make_directory(self, path: Path) -> bool:
            released.wait()
            return super().make_directory(path)

    try:
        with pytest.raises(BrokerFailed, match=r"not ready after 0.5 s") as failed:
            Kafka(disk=Hanging(), start_timeout_s=0.5).start()
    finally:
        released.set()
    assert "make_directory" in str(failed.value)
    wait_until(
        lambda: all(thread.name != "kwire test broker" for thread in threading.enumerate()),
        what="the end of the thread that hung",
    )
    assert list(tmp_path.iterdir()) == []


def test_the_brokers_log_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """Its lines don't disturb the log of the test, and two brokers don't mix theirs."""
    logger = logging.getLogger("kwire")
    before = logger.level, logger.parent, list(logger.handlers)
    with Kafka() as first, Kafka() as second:
        first.topic("orders", records=["a"])
        consume(first, "orders", 1, group="mine")
        logging.getLogger("kwire.other").warning("of the program")
        assert "mine" in first.log()
        assert "mine" not in second.log()
    assert (logger.level, logger.parent, list(logger.handlers)) == before
    assert [record.getMessage() for record in caplog.records] == ["of the program"]


def test_a_failure_carries_the_report_of_its_broker() -> None:
    """For the plugin, which reports the failure when the broker is gone."""
    from kwire.testing import ended

    ended.REPORTS.clear()
    with suppress(ZeroDivisionError), Kafka() as kafka:
        kafka.topic("orders", partitions=2, records=["a"])
        kafka.faults.delay("Heartbeat", seconds=1)
        raise ZeroDivisionError
    [report] = ended.REPORTS
    assert "orders (2 partitions): 0: 0 to 1, 1: 0 to 0" in report
    assert "log:" in report
    assert "delay(Heartbeat)" in report
    ended.REPORTS.clear()


def test_an_unexpected_exception_of_the_broker_fails_the_test(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bug of kwire must not pass unseen; the next test starts without it."""

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    with Kafka() as kafka:
        kafka.topic("orders")
        with monkeypatch.context() as patch:
            patch.setattr(Broker, "commit", fail)
            with pytest.raises(NoAnswer, match="does not answer"):
                kafka.topic("bills")
        with pytest.raises(RuntimeError, match="a bug"):
            kafka.reset()
        kafka.restart()


def test_importing_the_package_loads_neither_trio_nor_the_broker() -> None:
    """The plugin is loaded in every run of pytest where kwire is installed."""
    script = (
        "import sys, kwire.testing, kwire.testing.pytest_plugin; "
        "print([n for n in sys.modules if n == 'trio' or n.startswith('kwire')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['kwire', 'kwire.testing', 'kwire.testing.pytest_plugin']"


def test_a_reset_keeps_a_given_directory(tmp_path: Path) -> None:
    """It would remove data that aren't the test's own."""
    with Kafka(data_dir=tmp_path) as kafka, pytest.raises(ValueError, match="use restart"):
        kafka.reset()


def test_a_reset_that_fails_leaves_a_broker_that_can_be_reset(tmp_path: Path) -> None:
    """The next test of the session isn't to suffer from the settings of this one."""
    with Kafka() as kafka:
        with pytest.raises(BrokerFailed, match=r"num\.partitions"):
            kafka.reset({"num.partitions": 0})
        kafka.reset({})
        assert kafka.describe() == "no topics"


def test_a_test_broker_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for its logs nor for its metadata; other brokers do."""
    synced: list[int] = []
    opened: list[str] = []
    setting = "PRAGMA synchronous="
    connect = sqlite3.connect

    def traced(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.set_trace_callback(lambda said: opened.append(said) if setting in said else None)
        return connection

    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(sqlite3, "connect", traced)
    monkeypatch.setattr(embedded, "SYNCHRONOUS", "FULL")
    with Kafka({"log.flush.interval.messages": 1}, data_dir=tmp_path) as kafka:
        kafka.topic("orders", records=["a"])
    assert (synced, set(opened)) == ([], {f"{setting}OFF"})
    opened.clear()
    trio.run(EmbeddedStore.open(tmp_path / "other.db").close)
    assert set(opened) == {f"{setting}FULL"}
