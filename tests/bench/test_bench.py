"""The bench's arithmetic, its registry of rows, and its fallback generator; no timing asserted."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import options_of
from bench.bars import BARS, Bar, advantage, bar_of, ratio
from bench.choice import brokers_of
from bench.load import (
    FALLBACK,
    Generator,
    Load,
    connected,
    new_generator,
    read_frame,
    run_load,
    timed,
)
from bench.rows import ALL_ROWS, ROWS
from bench.rows.common import Row, batch
from bench.session import selected
from bench.usage import cpu_seconds, resident_mb
from kwire.record.batch import RecordBatch

MORE = Row("speed", "req/s", True, lambda running: 0.0)
LESS = Row("time", "s", False, lambda running: 0.0)


@pytest.mark.parametrize(
    ("row", "kwire", "kafka", "wanted"),
    [
        (MORE, 30, 10, 3),
        (MORE, 10, 20, 0.5),
        (LESS, 1, 5, 5),
        (LESS, 5, 1, 0.2),
        (LESS, 0, 1, None),
    ],
)
def test_an_advantage_above_1_means_ahead(
    row: Row, kwire: float, kafka: float, wanted: float | None
) -> None:
    """Whichever way the row counts; and nothing is divided by 0."""
    assert advantage(row, kwire, kafka) == wanted


def test_a_ratio_is_kwires_part_of_kafkas() -> None:
    """And there is none where one of them is missing."""
    assert ratio(3, 4) == 0.75
    assert ratio(3, None) is None


@pytest.mark.parametrize(
    ("bar", "kwire", "kafka", "wanted"),
    [
        (Bar(1.7, True), 17, 10, True),
        (Bar(1.7, True), 16, 10, False),
        (Bar(0.5, False), 5, 10, True),
        (Bar(0.5, False), 6, 10, False),
        (Bar(0.5, False), 6, None, None),
        (Bar(10, False, absolute=True), 9, None, True),
        (Bar(10, False, absolute=True), 11, 100, False),
        (Bar(1, False), 1.004, 1, False),
    ],
)
def test_a_bar_is_met_or_not(
    bar: Bar, kwire: float, kafka: float | None, wanted: bool | None
) -> None:
    """As a part of Kafka's number, or as kwire's own number."""
    assert bar.met(kwire, kafka) is wanted


def test_every_bar_belongs_to_a_row_and_looks_its_way() -> None:
    """A bar is at least where more is better; rows without one have to be level."""
    rows = {row.name: row for row in ALL_ROWS}
    for name, bar in BARS.items():
        assert bar.at_least is rows[name].more_is_better, name
    assert bar_of(MORE) == Bar(1, True, own=True)
    assert bar_of(LESS) == Bar(1, False, own=True)


def test_rows_have_names_of_their_own() -> None:
    """A name selects a row and keys its numbers."""
    names = [row.name for row in ALL_ROWS]
    assert len(names) == len(set(names))


def test_only_selects_by_name() -> None:
    """Every row of a load has the load's name in its own."""
    assert selected(ROWS, None) == ROWS
    found = selected(ROWS, "10 in flight")
    assert found
    assert {row.load for row in found} == {"1 connection, 10 in flight"}
    assert selected(ROWS, "no such row") == []
    with pytest.raises(SystemExit):
        options_of(["--only", "no such row"])


def test_quick_is_one_short_round() -> None:
    """And without it there are three."""
    assert (options_of([]).rounds, options_of([]).warm_up) == (3, 20)
    quick = options_of(["--quick"])
    assert (quick.rounds, quick.seconds) == (1, 0.5)


def test_apache_kafka_is_measured_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option, or by make's KAFKA=no; kwire is always measured."""
    monkeypatch.delenv("KAFKA", raising=False)
    assert options_of([]).kafka
    assert not options_of(["--no-kafka"]).kafka
    monkeypatch.setenv("KAFKA", "no")
    assert not options_of([]).kafka
    assert list(brokers_of(options_of([]), Console())) == ["kwire"]


def test_batches_are_valid() -> None:
    """What the generator sends is what a broker accepts."""
    built = RecordBatch(batch(10, 100))
    built.verify_crc()
    assert built.records_count == 10


def test_the_share_of_the_generator_tells_who_was_the_limit() -> None:
    """Its CPU seconds for each second of load."""
    load = Load(1000, 2.0, 0, 1, 2, 3, 1.9)
    assert (load.requests_per_s, load.generator_share) == (500, 0.95)


def test_a_process_has_memory_and_used_cpu() -> None:
    """Of this one, as the kernel counts."""
    assert resident_mb(os.getpid()) > 5
    assert cpu_seconds(os.getpid()) > 0


@pytest.mark.parametrize("size_bytes", [0, 3, 70_000, 300_000])
def test_a_response_is_read_whole(size_bytes: int) -> None:
    """However it arrives; and that the broker has closed the connection is said."""
    answer = os.urandom(size_bytes)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as broker:
                broker.recv(4)
                broker.sendall(size_bytes.to_bytes(4)[:2])
                broker.sendall(size_bytes.to_bytes(4)[2:] + answer[:10])
                broker.sendall(answer[10:])

        thread = threading.Thread(target=serve)
        thread.start()
        with connected(f"127.0.0.1:{server.getsockname()[1]}") as connection:
            taken, read = timed(connection, b"ping")
            with pytest.raises(ConnectionError):
                read_frame(connection)
        thread.join(timeout=10)
    assert read == answer
    assert taken > 0


def answer_frames(server: socket.socket, answers: list[int]) -> None:
    """Answer every 8-byte request of one connection with a frame of 3 bytes, until it closes."""
    with server.accept()[0] as connection:
        unread = 0
        while data := connection.recv(4096):
            unread += len(data)
            whole, unread = divmod(unread, 8)
            answers[0] += whole
            connection.sendall(b"\0\0\0\x03abc" * whole)


def generators(directory: Path) -> list[Generator]:
    """The one this machine compiles, if it can, and the one in Python."""
    return [new_generator(directory), Generator([sys.executable, str(FALLBACK)], directory)]


@pytest.mark.parametrize("which", [0, 1])
def test_both_generators_count_what_was_answered(which: int, tmp_path: Path) -> None:
    """Every request is answered once, and every answer counted."""
    generator = generators(tmp_path)[which]
    answers = [0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_frames, args=(server, answers))
        thread.start()
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        load = run_load(generator, bootstrap, b"\0\0\0\4ping", 1, 3, 0.05)
        thread.join(timeout=10)
    assert load.requests == answers[0] >= 3
    assert load.response_bytes == 7 * load.requests
    assert 0 <= load.p50_us <= load.p99_us <= load.p999_us


def test_the_fallback_says_why_it_ends(tmp_path: Path) -> None:
    """A broker that closes the connection ends the load, loudly."""
    file = tmp_path / "request"
    file.write_bytes(b"\0\0\0\4ping")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_at_once() -> None:
            connection = server.accept()[0]
            connection.recv(4)
            connection.close()

        thread = threading.Thread(target=close_at_once)
        thread.start()
        port = str(server.getsockname()[1])
        command = [sys.executable, str(FALLBACK), "127.0.0.1", port, "1", "1", "0.05", str(file)]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        thread.join(timeout=10)
    assert run.returncode != 0
    assert run.stdout == ""
