"""A broker for a test, in a process of its own: it can be killed for real, and has its own memory.

The helpers and the faults are those of ``Kafka``. ``clock`` and ``reset`` are only for brokers in a
thread.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kwire.testing.directories import TestDirectory
from kwire.testing.ended import EndsWithBlock
from kwire.testing.faults.elsewhere import FaultsElsewhere
from kwire.testing.helpers import Helpers, setting
from kwire.testing.kafka import START_TIMEOUT_S, TEST_SETTINGS, checked
from kwire.testing.process import BrokerProcess


class KafkaProcess(Helpers, EndsWithBlock):
    """``kwire serve`` on a free port of 127.0.0.1; ``settings`` are Kafka's, by name.

    The process ends with the ``with`` block, and with the process of the test however that ends.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: Path | str | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        super().__init__()
        self._directory = TestDirectory()
        self._is_given = data_dir is not None
        self.data_dir = self._directory.path if data_dir is None else Path(data_dir)
        self._ended_log: str | None = None
        self.faults = FaultsElsewhere()
        given = {name: setting(value) for name, value in checked(settings or {}).items()}
        self._process = BrokerProcess(
            self.data_dir,
            TEST_SETTINGS | given,
            start_timeout_s=start_timeout_s,
            dies_with_parent=True,
            log_file=self._directory.log_file,
            prepare=self.faults.of_a_process,
        )

    @property
    def bootstrap(self) -> str:  # type: ignore[override]
        """The broker's address."""
        return self._process.bootstrap

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._process.pid

    def start(self) -> Self:
        """Start the broker and wait until it is ready; BrokerFailed says why it isn't."""
        try:
            self._process.start()
        except BaseException:
            self._remove()
            raise
        return self

    def stop(self) -> None:
        """End the broker and remove its data, unless the directory was given."""
        self._asker.close()
        try:
            if self._is_given:
                self._process.stop()
            else:
                self._process.kill()
        finally:
            self._remove()

    def restart(self) -> None:
        """Stop the broker cleanly, unless it is gone, and start it on the same port and data."""
        self._asker.close()
        self._process.restart()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would; then ``restart``."""
        self._asker.close()
        self._process.kill()

    def report(self) -> str:
        """The topics, the log and the faults, for the report of a failing test."""
        faults = "\n".join(map(repr, self.faults))
        return f"{super().report()}\n\nfaults:\n{faults}" if faults else super().report()

    def log(self) -> str:
        """Everything that the broker has logged."""
        return self._process.log() if self._ended_log is None else self._ended_log

    def _remove(self) -> None:
        """Remove the data, unless they are in a given directory, and the file of the log."""
        if self._ended_log is None:
            self._ended_log = self.log()
        self._directory.remove()
