"""Kafka's VerifiableProducer and VerifiableConsumer, which run beside a test.

Both print a line of JSON for each event: what was acknowledged, what was consumed.
"""

import json
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from compat_tests.java_server import HostedTool
from compat_tests.java_tools import started_tool
from kwire.testing.waiting import wait_until

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
PATIENCE_S = 90


class Verifiable:
    """One of the programs, from the beginning of the ``with`` block to its end."""

    def __init__(self, main_class: str, bootstrap: str, *arguments: str) -> None:
        self._command = (main_class, "--bootstrap-server", bootstrap, *arguments)
        self._process: subprocess.Popen[str] | HostedTool | None = None
        self.events: list[dict[str, Any]] = []
        self._listener = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def of(self, name: str) -> list[dict[str, Any]]:
        """The events of one name so far."""
        return [event for event in list(self.events) if event["name"] == name]

    def __enter__(self) -> "Verifiable":
        self._process = started_tool(*self._command)
        self._listener.start()
        return self

    def stop(self) -> None:
        """End it in order: a producer waits for its answers, a consumer leaves its group."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._listener.join(PATIENCE_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._listener.join(PATIENCE_S)
        self._process.stdout.close()


class Producing(Verifiable):
    """A VerifiableProducer that writes numbers, so many in a second, until it is stopped."""

    def __init__(
        self, bootstrap: str, topic: str, per_second: int = 500, options: Sequence[str] = ()
    ) -> None:
        rate = ("--throughput", str(per_second), "--acks", "-1")
        super().__init__(PRODUCER, bootstrap, "--topic", topic, *rate, *options)

    @property
    def acknowledged(self) -> list[int]:
        """The numbers that were acknowledged."""
        return [int(event["value"]) for event in self.of("producer_send_success")]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """What the producer has told its application instead of an answer."""
        return self.of("producer_send_error")

    def wait_for_more(self, count: int) -> None:
        """Until so many more are acknowledged."""
        enough = len(self.of("producer_send_success")) + count
        wait_until(
            lambda: len(self.of("producer_send_success")) >= enough,
            timeout_s=PATIENCE_S,
            what=f"{count} more acknowledgements",
        )


class Consuming(Verifiable):
    """A VerifiableConsumer, which reads a topic from its beginning as a member of a group."""

    def __init__(self, bootstrap: str, topic: str, group: str, *options: str) -> None:
        where = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest")
        super().__init__(CONSUMER, bootstrap, *where, "--verbose", *options)

    @property
    def values(self) -> list[int]:
        """The numbers that were consumed, in this order."""
        return [int(event["value"]) for event in self.of("record_data")]


def idempotent(directory: Path) -> tuple[str, str]:
    """The options of an idempotent VerifiableProducer: by itself it never repeats a request."""
    file = directory / "producer.properties"
    file.write_text("enable.idempotence=true\nretries=2147483647\n", encoding="utf-8")
    return "--command-config", str(file)
