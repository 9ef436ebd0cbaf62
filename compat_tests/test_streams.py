"""Kafka Streams with exactly_once_v2, killed and started again, on Kafka's own programs.

The word count has a repartition topic and a state store with a changelog. Without a cache it writes
the count of a word each time the word comes, so that of every word the output holds 1, 2, 3 … and
nothing twice.
"""

import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from compat_tests.clients import produce_confluent
from compat_tests.java_tools import streams_command
from compat_tests.raw_client import RawClient
from compat_tests.reading import LOOK_S, count_of, read_rows
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
SMOKE = "org.apache.kafka.streams.tests.StreamsSmokeTest"
SOURCE, TARGET = "streams-plaintext-input", "streams-wordcount-output"
WORDS = ["all", "streams", "lead", "to", "kafka", "hello", "join", "summit"]
LINES_PER_ROUND = 60
PATIENCE_S = 300
JUDGES = "echo-0 at position"
"""What the driver says first when it begins to judge."""


@contextmanager
def running(
    main_class: str, *arguments: str, stderr: int | IO[bytes] = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Kafka Streams that runs during the ``with`` block, and is killed then."""
    process = subprocess.Popen(
        streams_command(main_class, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def settings(path: Path, bootstrap: str, application: str, protocol: str = "classic") -> str:
    """A file with the settings of an instance; its name."""
    lines = {
        "group.protocol": protocol,
        "bootstrap.servers": bootstrap,
        "application.id": application,
        "state.dir": str(path / "state"),
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": "100",
        "num.stream.threads": "2",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "auto.offset.reset": "earliest",
        "replication.factor": "1",
    }
    path.mkdir()
    file = path / "streams.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(file)


@pytest.fixture
def topics(bootstrap: str, admin: KafkaAdminClient) -> Iterator[None]:
    """The topics of the word count, whose names are fixed; gone before and after."""
    _delete_topics(admin)
    create_topics(bootstrap, SOURCE, partitions=2)
    create_topics(bootstrap, TARGET, partitions=2)
    yield
    _delete_topics(admin)


def _delete_topics(admin: KafkaAdminClient) -> None:
    ours = [name for name in admin.list_topics() if name.startswith(("streams-", "words-"))]
    if ours:
        admin.delete_topics(ours)
    wait_until(lambda: not set(ours) & set(admin.list_topics()), what="topics to be gone")


def write_lines(bootstrap: str, first: int) -> None:
    """Sixty lines of words."""
    lines = [
        " ".join(WORDS[(number * 3 + place) % len(WORDS)] for place in range(4)).encode()
        for number in range(first, first + LINES_PER_ROUND)
    ]
    produce_confluent(bootstrap, SOURCE, [(line, line, []) for line in lines])


@pytest.mark.runs(
    "Kafka Streams with `exactly_once_v2`",
    "kafka-streams",
    "exactly once, through kill -9; with `group.protocol` classic and streams",
)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_a_word_count_that_is_killed(
    bootstrap: str, topics: None, tmp_path: Path, protocol: str
) -> None:
    """Of every word each count comes out once, in order, whoever dies meanwhile."""
    application = f"words-count-{protocol}"
    files = [settings(tmp_path / name, bootstrap, application, protocol) for name in ("a", "b")]
    written = 0
    with running(WORD_COUNT, files[0]):
        for file in (files[1], files[1]):
            with running(WORD_COUNT, file):
                write_lines(bootstrap, written)
                written += LINES_PER_ROUND
                _wait_for_count(bootstrap, (written - LINES_PER_ROUND // 2) * 4)
    # Both are dead now; another one takes their state from the changelog.
    write_lines(bootstrap, written)
    written += LINES_PER_ROUND
    with running(WORD_COUNT, settings(tmp_path / "c", bootstrap, application, protocol)):
        _wait_for_count(bootstrap, written * 4)
    counts: dict[str, list[int]] = {}
    for key, value in read_rows(bootstrap, TARGET, 2):
        counts.setdefault(key.decode(), []).append(int.from_bytes(value))
    assert sum(len(found) for found in counts.values()) == written * 4
    for word, found in counts.items():
        assert found == list(range(1, len(found) + 1)), word


def _wait_for_count(bootstrap: str, count: int) -> None:
    wait_until(
        lambda: count_of(bootstrap, TARGET, 2) >= count,
        timeout_s=PATIENCE_S,
        what=f"{count} counts",
        interval_s=LOOK_S,
    )


SMOKE_TOPICS = [
    "data",
    "echo",
    "max",
    "min",
    "min-suppressed",
    "min-raw",
    "dif",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "fwd",
    "avg",
    "tagg",
    "cnt",
]


@pytest.fixture
def smoke_topics(bootstrap: str, admin: KafkaAdminClient) -> Iterator[None]:
    """The topics of Kafka's smoke test, whose names are fixed."""

    def delete() -> None:
        known = admin.list_topics()
        ours = [n for n in known if n in SMOKE_TOPICS or n.startswith("SmokeTest-")]
        if ours:
            admin.delete_topics(ours)
        wait_until(lambda: not set(ours) & set(admin.list_topics()), what="topics to be gone")

    delete()
    for topic in SMOKE_TOPICS:
        create_topics(bootstrap, topic, partitions=5)
    yield
    delete()


@pytest.mark.waits(100)
def test_the_smoke_test_of_kafka(
    bootstrap: str, admin: KafkaAdminClient, smoke_topics: None, tmp_path: Path
) -> None:
    """Kafka's own driver writes for a minute and a half and then judges what came out.

    Aggregates, windows, joins and suppression, by two clients that are killed meanwhile. The driver
    takes end offsets and then positions, and calls it a failure where something was written in
    between: so it is held up until the clients are done with what it wrote.
    """
    files = [settings(tmp_path / name, bootstrap, "SmokeTest") for name in ("a", "b", "driver")]
    driver = subprocess.Popen(
        streams_command(SMOKE, files[2], "run"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert driver.stdout is not None
    said: list[str] = []
    judges = threading.Event()

    def listen(lines: Iterable[str]) -> None:
        for line in lines:
            said.append(line)
            if JUDGES in line and not judges.is_set():
                driver.send_signal(signal.SIGSTOP)
                judges.set()

    listener = threading.Thread(target=listen, args=[driver.stdout])
    listener.start()
    try:
        with running(SMOKE, files[0], "process"):
            with running(SMOKE, files[1], "process"):
                wait_until(
                    lambda: count_of(bootstrap, "cnt", 5) > 500,
                    timeout_s=PATIENCE_S,
                    what="both clients to have counted",
                    interval_s=LOOK_S,
                )
            with running(SMOKE, files[1], "process"):
                wait_until(
                    lambda: count_of(bootstrap, "cnt", 5) > 2500,
                    timeout_s=PATIENCE_S,
                    what="them to have counted more",
                    interval_s=LOOK_S,
                )
        with running(SMOKE, files[0], "process"), running(SMOKE, files[1], "process"):
            wait_until(judges.is_set, timeout_s=4 * PATIENCE_S, what="the driver to judge")
            try:
                wait_until(
                    lambda: lag(bootstrap, admin, "SmokeTest") == 0,
                    timeout_s=PATIENCE_S,
                    what="the clients to be done",
                    interval_s=LOOK_S,
                )
            finally:
                driver.send_signal(signal.SIGCONT)
            driver.wait(4 * PATIENCE_S)
    finally:
        driver.kill()
        driver.wait()
        listener.join()
        driver.stdout.close()
    assert "SUCCESS\n" in said, "".join(said)[-3000:]


def lag(bootstrap: str, admin: KafkaAdminClient, group: str) -> int:
    """How many records a group of Streams has yet to process; -1 while it has committed nothing.

    The marker at the end of a partition that is written in transactions is none.
    """
    committed = admin.list_group_offsets(group).get(group, {})
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    ends = consumer.end_offsets(list(committed))
    consumer.close()
    if not committed:
        return -1
    return sum(
        max(0, ends[place] - known.offset - (place.topic.startswith(group)))
        for place, known in committed.items()
    )


STREAMS_GROUP_HEARTBEAT = 88
REFUSAL = "The cluster does not support the STREAMS group protocol"


def test_the_streams_protocol(bootstrap: str, topics: None, tmp_path: Path) -> None:
    """A program with ``group.protocol=streams`` (KIP-1071) counts words, or ends and says why.

    It ends where the broker doesn't advertise StreamsGroupHeartbeat. The reason is in its log, and
    it comes with the first heartbeat, not after a timeout.
    """
    with RawClient(bootstrap) as raw:
        advertised = {api.api_key for api in raw.ask(ApiVersionsRequest(), 0).api_keys}
    file = settings(tmp_path / "a", bootstrap, "words-protocol")
    with Path(file).open("a", encoding="utf-8") as more:
        more.write("group.protocol=streams\n")
    write_lines(bootstrap, 0)
    said = tmp_path / "stderr"
    with said.open("wb") as stderr, running(WORD_COUNT, file, stderr=stderr):
        if STREAMS_GROUP_HEARTBEAT in advertised:
            _wait_for_count(bootstrap, 1)
            assert REFUSAL not in said.read_text(encoding="utf-8")
        else:
            wait_until(
                lambda: REFUSAL in said.read_text(encoding="utf-8"),
                timeout_s=PATIENCE_S,
                what="the program to say why it ends",
            )
