"""What docs/OPERATIONS.md says of backups is true: which copies hold everything, and which don't.

Each test restores its copy as the page says, in a new place, and compares what clients find there:
topics with their ids and settings, records, committed offsets, and transactions.
"""

import os
import shutil
import signal
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

DATA = Path(__file__).parents[1] / "data"
WAIT_S = 30.0
GROUP = "billing"
RETENTION = {"retention.ms": "-1"}
CLEANLY = ".kafka_cleanshutdown"


def _broker(data_dir: Path) -> BrokerProcess:
    """A broker whose internal topics are small and made quickly; offsets don't expire."""
    names = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")
    for_ever = {"offsets.retention.minutes": "2147483647"}
    return BrokerProcess(data_dir, dict.fromkeys(names, "2") | for_ever)


def _client(bootstrap: str, **settings: str) -> dict[str, Any]:
    """The settings of a client of librdkafka."""
    settings = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": bootstrap, "log_level": 2, **settings}


def _produce(bootstrap: str, topic: str, values: list[str], **settings: str) -> None:
    """Write records, all of which are acknowledged when this returns."""
    producer = Producer(_client(bootstrap, **settings))
    if settings:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=len(value) % 2)
    assert producer.flush(WAIT_S) == 0
    if settings:
        producer.commit_transaction(WAIT_S)


def _fill(bootstrap: str) -> None:
    """Two topics with settings and records, a group with offsets, and a finished transaction."""
    admin = AdminClient(_client(bootstrap))
    topics = [NewTopic("orders", 2, 1, config=RETENTION), NewTopic("logins", 2, 1)]
    for future in admin.create_topics(topics).values():
        future.result(WAIT_S)
    _produce(bootstrap, "orders", [f"order {'x' * (n % 7)} {n}" for n in range(300)])
    _produce(bootstrap, "logins", ["anna", "bo", "cleo"], transactional_id="desk")
    _commit(bootstrap, 120)


def _commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer(_client(bootstrap, group_id=GROUP, enable_auto_commit="false"))
    wait_until(lambda: _is_committed(consumer, offset))  # the coordinator may still be loading
    consumer.close()


def _is_committed(consumer: Consumer, offset: int) -> bool:
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    except KafkaException as error:
        if not error.args[0].retriable():
            raise
        return False
    return True


def _records(bootstrap: str, topic: str) -> list[tuple[int, int, bytes]]:
    """Partition, offset and value of every record that a consumer of committed records gets."""
    reader = _client(bootstrap, group_id="reader", isolation_level="read_committed")
    reader |= {"enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 5}
    consumer = Consumer(reader)
    consumer.assign([TopicPartition(topic, index, 0) for index in (0, 1)])
    found, ended = [], 0
    while ended < 2:
        message = consumer.poll(WAIT_S)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return sorted(found)


def _content(bootstrap: str, *topics: str) -> dict[str, Any]:
    """What clients find on a broker."""
    admin = AdminClient(_client(bootstrap))
    topics = topics or ("orders", "logins")
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    configs = admin.describe_configs([resource])[resource].result(WAIT_S)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    return {
        "cluster": admin.list_topics(timeout=WAIT_S).cluster_id,
        "ids": {
            topic.name: str(topic.topic_id)
            for topic in admin.describe_topics(TopicCollection(list(topics))).values()
            for topic in [topic.result(WAIT_S)]
        },
        "retention": configs["retention.ms"].value,
        "records": {topic: _records(bootstrap, topic) for topic in topics},
        "committed": [
            (partition.topic, partition.partition, partition.offset)
            for partition in offsets[GROUP].result(WAIT_S).topic_partitions
        ],
    }


@contextmanager
def _paused(broker: BrokerProcess) -> Iterator[None]:
    """No thread of the broker runs meanwhile, so that its files stand still as in a snapshot."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        state = Path(f"/proc/{broker.pid}/stat")
        wait_until(lambda: state.read_text(encoding="utf-8").rpartition(") ")[2].startswith("T"))
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def _synchronise(source: Path, target: Path) -> int:
    """What ``rsync -a --delete --modify-window=-1`` does; returns how many files it has copied.

    A file with the same size and the same time of its last change isn't copied again.
    """
    target.mkdir(exist_ok=True)
    wanted = {path.relative_to(source) for path in source.rglob("*")}
    for path in sorted(target.rglob("*"), reverse=True):
        if path.relative_to(target) not in wanted:
            path.rmdir() if path.is_dir() else path.unlink()
    copied = 0
    for name in sorted(wanted):
        if (source / name).is_dir():
            (target / name).mkdir(parents=True, exist_ok=True)
        elif _state(source / name) != _state(target / name):
            shutil.copy2(source / name, target / name)
            copied += 1
    return copied


def _state(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else None


def test_a_copy_of_a_stopped_broker_is_a_backup(tmp_path: Path) -> None:
    """All of it, and nothing has to be recovered at the start."""
    with _broker(tmp_path / "data") as broker:
        _fill(broker.bootstrap)
        before = _content(broker.bootstrap)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with _broker(tmp_path / "data") as broker:
        _produce(broker.bootstrap, "orders", ["too late"])
        _commit(broker.bootstrap, 121)
    with _broker(tmp_path / "copy") as restored:
        assert _content(restored.bootstrap) == before
        assert "not closed cleanly" not in restored.log()
    assert before["committed"] == [("orders", 0, 120)]
    assert [len(found) for found in before["records"].values()] == [300, 3]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a pause is seen in /proc")
def test_a_snapshot_of_a_running_broker_is_a_backup(tmp_path: Path) -> None:
    """All that was acknowledged until then; the start recovers, as after a crash."""
    acknowledged: list[int] = []
    is_over = Event()

    def write_on(bootstrap: str) -> None:
        producer = Producer(_client(bootstrap, enable_idempotence="true", linger_ms="0"))
        number = 0
        while not is_over.is_set():
            producer.produce("orders", f"more {number}", partition=0)
            assert producer.flush(WAIT_S) == 0
            acknowledged.append(number)
            number += 1

    with _broker(tmp_path / "data") as broker:
        _fill(broker.bootstrap)
        before = _content(broker.bootstrap)
        writer = Thread(target=write_on, args=(broker.bootstrap,))
        writer.start()
        try:
            wait_until(lambda: len(acknowledged) > 20)
            with _paused(broker):
                known = len(acknowledged)
                shutil.copytree(tmp_path / "data", tmp_path / "copy")
        finally:
            is_over.set()
            writer.join()
    assert not (tmp_path / "copy" / CLEANLY).exists()
    with _broker(tmp_path / "copy") as restored:
        after = _content(restored.bootstrap)
        assert "was not closed cleanly; checking its logs" in restored.log()
    more = [value for _, _, value in after["records"]["orders"] if value.startswith(b"more")]
    assert more == [b"more %d" % n for n in range(len(more))], "in order, without a gap"
    assert known <= len(more) <= known + 1
    after["records"]["orders"] = [
        row for row in after["records"]["orders"] if not row[2].startswith(b"more")
    ]
    assert after == before


def test_a_copy_that_is_completed_after_a_stop_is_a_backup(tmp_path: Path) -> None:
    """Most is copied while the broker runs, so that it is stopped for a moment only."""
    source, target = tmp_path / "data", tmp_path / "copy"
    with _broker(source) as broker:
        _fill(broker.bootstrap)
        _synchronise(source, target)
        admin = AdminClient(_client(broker.bootstrap))
        admin.delete_topics(["logins"])["logins"].result(WAIT_S)
        admin.create_topics([NewTopic("late", 2, 1)])["late"].result(WAIT_S)
        _produce(broker.bootstrap, "orders", ["one more", "and another"])
        _produce(broker.bootstrap, "late", ["later"])
        _commit(broker.bootstrap, 140)
        before = _content(broker.bootstrap, "orders", "late")
    whole = sum(path.is_file() for path in source.rglob("*"))
    assert _synchronise(source, target) < whole, "what didn't change isn't copied again"
    with _broker(target) as restored:
        assert _content(restored.bootstrap, "orders", "late") == before
        topics = AdminClient(_client(restored.bootstrap)).list_topics(timeout=WAIT_S).topics
        assert "logins" not in topics
        assert "not closed cleanly" not in restored.log()


def test_a_plain_copy_of_a_running_broker_is_no_backup(tmp_path: Path) -> None:
    """Its files are of different moments: here a topic was made after the metadata was copied."""
    source, target = tmp_path / "data", tmp_path / "copy"
    target.mkdir()
    with _broker(source) as broker:
        _fill(broker.bootstrap)
        for path in source.glob("kwire-metadata.db*"):
            shutil.copy2(path, target)
        admin = AdminClient(_client(broker.bootstrap))
        admin.create_topics([NewTopic("late", 2, 1)])["late"].result(WAIT_S)
        _produce(broker.bootstrap, "late", ["lost"])
        unlocked = shutil.ignore_patterns("kwire-metadata.db*")
        shutil.copytree(source, target, ignore=unlocked, dirs_exist_ok=True)
    with _broker(target) as restored:
        topics = AdminClient(_client(restored.bootstrap)).list_topics(timeout=WAIT_S).topics
        assert "orders" in topics
        assert "late" not in topics
        assert "late-0 is of a deleted topic or moved away; putting it aside" in restored.log()


def test_a_restored_broker_leaves_transactions_as_they_were(tmp_path: Path) -> None:
    """One that was open in the copy is never seen, and its producer can begin a new one."""
    with _broker(tmp_path / "data") as broker:
        _fill(broker.bootstrap)
        producer = Producer(_client(broker.bootstrap, transactional_id="till"))
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce("logins", "never committed", partition=0)
        assert producer.flush(WAIT_S) == 0
        with _paused(broker):
            shutil.copytree(tmp_path / "data", tmp_path / "copy")
        producer.abort_transaction(WAIT_S)
    with _broker(tmp_path / "copy") as restored:
        _produce(restored.bootstrap, "logins", ["dora"], transactional_id="till")
        values = {value for _, _, value in _records(restored.bootstrap, "logins")}
    assert values == {b"anna", b"bo", b"cleo", b"dora"}


def test_a_broker_takes_a_directory_of_the_first_version(tmp_path: Path) -> None:
    """An upgrade: what kwire 0.1.0 left is served, without a conversion."""
    with tarfile.open(DATA / "kwire-0.1.0-data-dir.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    with _broker(tmp_path / "data") as broker:
        found = _content(broker.bootstrap)
        assert "not closed cleanly" not in broker.log()
    assert found["cluster"] == "jgbtuQtg-Edhzk0Ve2RkJA"
    assert found["retention"] == RETENTION["retention.ms"]
    assert found["committed"] == [("orders", 0, 120)]
    assert [len(records) for records in found["records"].values()] == [300, 3]
