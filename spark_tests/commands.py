"""``kwire pipeline`` in this process, which has a session, and a topic of all kinds of records."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kwire.cli import main
from spark_tests.pipelines import TIMEOUT_S, settings_of
from spark_tests.processes import toml


def write_file(broker: str, topic: str, directory: Path, **changes: Any) -> None:
    """The pipeline's file, with dead letters in a table; ``settings_of`` takes the changes."""
    dead_letters = {"path": str(directory / "dead")}
    settings = settings_of(broker, topic, directory, dead_letters=dead_letters, **changes)
    (directory / "p.toml").write_text(toml(settings))


def produce_all_kinds(broker: str, topic: str, first: int, end: int) -> None:
    """Objects in two transactions, the second one aborted; a tombstone and garbage besides."""
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions(TIMEOUT_S)
    for is_committed in (True, False):
        producer.begin_transaction()
        for n in range(first, end):
            producer.produce(topic, json.dumps({"n": n, "name": "x"}), b"%d" % n, 0)
        producer.produce(topic, b"{garbage", b"bad", 0)
        producer.produce(topic, None, b"gone", 0)
        if is_committed:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)


class Commands:
    """Runs ``kwire pipeline`` in this process, which has a session already."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = file
        self._capsys = capsys

    def __call__(self, action: str, *more: object, code: int = 0) -> str:
        """What a command prints; its exit code must be the given one."""
        self._capsys.readouterr()
        found = main(["pipeline", action, str(self._file), *map(str, more)])
        printed = self._capsys.readouterr()
        assert found == code, printed
        return printed.out + printed.err

    def verify(self, code: int = 0) -> dict[str, Any]:
        """What verify says of the only partition."""
        [row] = json.loads(self("verify", "--json", code=code))
        return dict(row)
