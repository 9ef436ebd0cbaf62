"""Compaction as the files show it: Kafka's tools read what kwire's cleaner wrote, and both cleaners
leave the same of the same log, batch by batch.

These tests have an Apache Kafka of their own and look into its directory.
"""

import random
import re
import shutil
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ResourceType

from compat_tests.apache_kafka import ApacheKafka
from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.java_tools import run_tool
from compat_tests.test_compaction import alter
from kwire.log.checkpoints import CLEANER_OFFSETS, read_offsets
from kwire.log.compaction.local import run_clean
from kwire.log.compaction.manager import CompactionManager, CompactionSettings
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.recovery import open_log
from kwire.record.records import BatchBuilder
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOPIC = "compacted"
NEVER, ALWAYS = {"min.cleanable.dirty.ratio": "1.0"}, {"min.cleanable.dirty.ratio": "0.0"}
DELETE_RETENTION_MS = 1
CONFIG = LogConfig(
    compact=True,
    delete=False,
    delete_retention_ms=DELETE_RETENTION_MS,
    segment_bytes=1 << 20,
    min_cleanable_dirty_ratio=0.0,
)


def compact(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> None:
    """Clean a log that has no open transaction."""
    manager = CompactionManager({(log.topic, 0): log}, [], Disk())
    log.first_dirty_offset = first_dirty_offset
    clean = manager.next_clean(lambda _: log.log_end_offset, CompactionSettings(), now_ms, now_ms)
    assert clean is not None
    assert run_clean(manager, clean, Disk(), now_ms)


def test_kafkas_tool_reads_what_was_cleaned(tmp_path: Path) -> None:
    """Every record and every entry of both indexes, in several segments and codecs."""
    now_ms = time.time_ns() // 1_000_000
    log = open_log(
        tmp_path / f"{TOPIC}-0",
        TOPIC,
        0,
        CONFIG,
        disk=Disk(),
        now_ms=now_ms,
        clean=True,
        topic_id=bytes(16),
    )
    chance = random.Random(1)
    for number in range(3000):
        builder = BatchBuilder()
        for _ in range(chance.choice([1, 5, 20])):
            value = None if chance.random() < 0.1 else chance.randbytes(150)
            builder.add(now_ms + number, b"k%d" % chance.randrange(9000), value)
        batch = builder.build(compression=number % 5)
        log.append(batch, leader_epoch=0, now_ms=now_ms)
    log.roll(now_ms)
    compact(log, 0, now_ms)
    compact(log, 0, now_ms + DELETE_RETENTION_MS)
    log.close(now_ms)
    assert len(log.segments) > 2
    for kind in ("log", "index", "timeindex"):
        files = ",".join(map(str, sorted(log.directory.glob(f"*.{kind}"))))
        options = ["--deep-iteration"] if kind == "log" else []
        shown = run_tool(DUMP, *options, "--files", files)
        assert "Found" not in shown, shown[:2000]
        assert "isvalid: false" not in shown
    files = ",".join(map(str, sorted(log.directory.glob("*.index"))))
    shown = run_tool(DUMP, "--index-sanity-check", "--files", files)
    assert shown.count("passed sanity check") == len(log.segments) - 1
    assert shown.count("is empty") == 1  # that of the active one


class Load:
    """Producers of every kind, and what they write by chance."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self._bootstrap = bootstrap
        self._producers: list[tuple[Producer, bool]] = []
        for number, codec in enumerate(["none", "zstd", "lz4", "none", "gzip", "snappy"]):
            options = {"compression.type": codec, "enable.idempotence": number % 3 > 0}
            is_transactional = number % 3 == 2
            if is_transactional:
                options["transactional.id"] = f"load-{number}"
            producer = self._producer(**options)
            if is_transactional:
                producer.init_transactions(READ_TIMEOUT_S)
            self._producers.append((producer, is_transactional))

    def _producer(self, **options: object) -> Producer:
        return Producer({"bootstrap.servers": self._bootstrap, **options}, logger=QUIET)

    def write(self) -> None:
        """Some batches by one of the producers, its transaction if it is a transactional one."""
        chance = self._chance
        producer, is_transactional = chance.choice(self._producers)
        if is_transactional:
            producer.begin_transaction()
        for _ in range(chance.choice([1, 2, 5])):
            for _ in range(chance.choice([1, 3, 10])):
                value = None if chance.random() < 0.15 else b"v%d" % chance.randrange(1000)
                producer.produce(TOPIC, value, b"k%d" % chance.randrange(25))
            assert producer.flush(READ_TIMEOUT_S) == 0
        if is_transactional and chance.random() < 0.5:
            producer.commit_transaction(READ_TIMEOUT_S)
        elif is_transactional:
            producer.abort_transaction(READ_TIMEOUT_S)

    def roll(self, log_directory: Path) -> None:
        """Write until there is another segment."""
        before = len(list(log_directory.glob("*.log")))
        producer = self._producer()

        def has_rolled() -> bool:
            producer.produce(TOPIC, b"x", b"roll")
            producer.flush(READ_TIMEOUT_S)
            return len(list(log_directory.glob("*.log"))) > before

        wait_until(has_rolled)


def dump(directory: Path) -> list[str]:
    """What Kafka's tool shows of the cleaned segment, without what may differ.

    That is where batches are and their checksums, for one codec has many encodings, and the very
    millisecond of a clean.
    """
    stem = directory / f"{0:020d}"
    shown = run_tool(DUMP, "--deep-iteration", "--print-data-log", "--files", f"{stem}.log")
    shown = re.sub(r"(position|size|crc): \d+|OptionalLong\[\d+\]", "", shown)
    if stem.with_suffix(".txnindex").exists():
        shown += run_tool(DUMP, "--files", f"{stem}.txnindex").partition("\n")[2]
    return [line for line in shown.splitlines() if not line.startswith("Dumping")]


def test_both_cleaners_leave_the_same(tmp_path: Path) -> None:
    """Records, empty batches, markers, delete horizons, aborted transactions, clean after clean."""
    with ApacheKafka(tmp_path / "kafka", {"log.cleaner.backoff.ms": "50"}) as kafka:
        config = {"cleanup.policy": "compact", "segment.ms": "50", **NEVER}
        config["delete.retention.ms"] = str(DELETE_RETENTION_MS)
        create_topics(kafka.bootstrap, TOPIC, **config)
        client = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=QUIET)
        theirs = kafka.log_dir / f"{TOPIC}-0"
        load = Load(kafka.bootstrap, seed=7)

        def first_dirty_offset() -> int:
            offsets = read_offsets(kafka.log_dir / CLEANER_OFFSETS, Disk())
            return offsets.get((TOPIC, 0), 0)

        for number in range(3):
            for _ in range(30):
                load.write()
            load.roll(theirs)
            ours = tmp_path / str(number) / theirs.name
            shutil.copytree(theirs, ours)
            before = first_dirty_offset()
            alter(client, ResourceType.TOPIC, TOPIC, ALWAYS)
            wait_until(lambda known=before: first_dirty_offset() > known)
            alter(client, ResourceType.TOPIC, TOPIC, NEVER)
            now_ms = time.time_ns() // 1_000_000
            log = open_log(ours, TOPIC, 0, CONFIG, disk=Disk(), now_ms=now_ms, clean=True)
            compact(log, before, now_ms)
            log.close(now_ms)
            assert log.first_dirty_offset == first_dirty_offset()
            assert dump(ours) == dump(theirs), f"clean {number}"
