"""A broker for a test, in a thread of the test's own process.

Example::

    with Kafka() as kafka:
        kafka.topic("orders", records=["first", "second"])
        application.run(bootstrap=kafka.bootstrap)
        kafka.wait_for_lag("billing", 0)

Rules:

- The broker is ready when the block begins, on a free port of 127.0.0.1. It ends with the block,
  and nothing of it is left on the disk.
- The broker doesn't wait for the disk: its data survive ``kill`` and ``restart``, but no power cut.
- A forked child, as ``multiprocessing`` makes it, doesn't affect the broker: it may outlive a
  ``restart`` or ``reset``, and calls on its copy of the object change nothing.
- The end of the block raises the first unexpected exception of the broker, unless the test has
  failed already.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Self
from weakref import WeakSet

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.config.unknown import hint, unknown_names
from kwire.log.disk import Disk
from kwire.server import Server
from kwire.testing.asking import Asker
from kwire.testing.broker_log import COLLECTOR, BrokerLog
from kwire.testing.broker_thread import BrokerThread, Serving
from kwire.testing.clock import BrokerClock
from kwire.testing.directories import TestDirectory
from kwire.testing.ended import EndsWithBlock
from kwire.testing.faults.planning import Faults
from kwire.testing.forks import let_go_of
from kwire.testing.helpers import Helpers, Record, setting
from kwire.testing.process import BrokerFailed
from kwire.testing.quick_disk import QuickDisk

__all__ = ["BrokerFailed", "Kafka", "Record"]

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0
FAILED_STOP_TIMEOUT_S = 0.2

TEST_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings of test brokers that differ from kwire's: fewer files make the first group quicker."""


class Kafka(Helpers, EndsWithBlock):
    """A broker in a thread. ``settings`` are Kafka's, by name.

    ``data_dir`` is a new directory, which is removed at the end, unless one is given. ``disk`` may
    be a disk that fails (``kwire.testing.faulty_disk``). ``is_used`` belongs to code that
    shares a broker among tests.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data_dir: Path | str | None = None,
        disk: Disk | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
        log_level: int = logging.INFO,
    ) -> None:
        super().__init__()
        self.settings = checked(settings or {})
        self.faults = Faults()
        self.clock = BrokerClock(self._pass_time)
        self.bootstrap = ""
        self.is_used = False
        self._registry_address = "127.0.0.1:0"
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._directory: TestDirectory | None = None
        self._disk = disk
        self._start_timeout_s = start_timeout_s
        self._log = BrokerLog(log_level)
        self._thread: BrokerThread | None = None
        self._serving: Serving | None = None

    def start(self) -> Self:
        """Start the broker and wait until it is ready; BrokerFailed says why it isn't."""
        assert self._thread is None, "the broker has been started already"
        _STARTED.add(self)
        COLLECTOR.begin(self._log)
        self._thread = BrokerThread(self._log)
        try:
            self._thread.begin(self._start_timeout_s)
            self._make_directory()
            self._serve("127.0.0.1:0")
        except BaseException:
            with suppress(BrokerFailed):  # the error of the start says why it doesn't end
                self._end_thread(FAILED_STOP_TIMEOUT_S)
            raise
        return self

    def stop(self) -> None:
        """End the broker and remove its data; raises its first unexpected exception, if any."""
        if self._thread is None:
            return
        serving, self._serving = self._serving, None
        self._asker.close()
        try:
            if serving is not None:  # a clean stop would only save data that is removed
                self._thread.stop(serving, STOP_TIMEOUT_S, clean=self._given_dir is not None)
        finally:
            self._end_thread(STOP_TIMEOUT_S)
        raise_bug(serving)

    def restart(self) -> None:
        """Stop the broker cleanly, unless it is gone, and start it on the same port and data."""
        self._end_server(clean=True)
        self._serve(self.bootstrap)

    def kill(self) -> None:
        """End the broker at once, without a clean stop, as ``kill -9`` would; then ``restart``."""
        self._end_server(clean=False)

    def reset(self, settings: Mapping[str, object] | None = None) -> None:
        """Give the broker back as new, on the same port: without topics, groups, data and faults.

        Its time is the present again.
        The old broker ends as by ``kill``, and a new one starts with empty directories.
        """
        if self._directory is None:
            raise ValueError(f"reset would remove the data in {self._given_dir}; use restart")
        self.faults.clear()
        self.clock = BrokerClock(self._pass_time)
        if settings is not None:
            self.settings = checked(settings)
        old, directory = self._serving, self._directory
        # Clients keep what ids mean at an address, and the new registry gives the same ids again.
        self._registry_address = "127.0.0.1:0"
        self._asker.close()
        self._make_directory()
        try:
            self._serve(self.bootstrap, old)
        finally:
            directory.remove()
        raise_bug(old)

    def raise_bug(self) -> None:
        """Raise the first unexpected exception of the broker, if there is one; then forget it."""
        raise_bug(self._serving)

    @property
    def schema_registry(self) -> str:
        """The URL of the broker's schema registry; a restart keeps it.

        ValueError without the setting ``kwire.registry.listen``, whose port is chosen here.
        """
        registry = None if self._serving is None else self._serving.server.registry
        if registry is None:
            raise ValueError('needs the setting "kwire.registry.listen": "127.0.0.1:0"')
        return registry.url

    def now_ms(self) -> int:
        """The broker's date, which ``clock.advance`` puts ahead."""
        return self.clock.now_ms()

    def log(self) -> str:
        """The last lines that the broker has logged."""
        return self._log.text()

    def report(self) -> str:
        """The topics, the log and the faults, for the report of a failing test."""
        faults = "\n".join(map(repr, self.faults))
        return f"{super().report()}\n\nfaults:\n{faults}" if faults else super().report()

    def let_go(self) -> None:
        """In a forked child: close the files of the parent, which has the thread of the broker."""
        serving, self._serving = self._serving, None
        directory, self._directory = self._directory, None
        self._thread, self._asker = None, Asker()
        if directory is not None:
            directory.let_go()
        if serving is not None:
            let_go_of(serving.server)

    def _make_directory(self) -> None:
        if self._given_dir is not None:
            self.data_dir = self._given_dir
        else:
            self._directory = TestDirectory()
            self.data_dir = self._directory.path

    def _serve(self, address: str, old: Serving | None = None) -> None:
        """Run a server at ``host:port``, in place of an ``old`` one if there is one."""
        assert self._thread is not None, "the broker has not been started"
        given = {name: setting(value) for name, value in self.settings.items()}
        given["listeners"] = self._listeners("127.0.0.1:0")  # what is said of logins depends on it
        try:
            config = _config(frozenset(given.items()))
        except ConfigError as error:
            raise BrokerFailed(f"the broker can't start: {error}") from error
        chosen = {"log.dirs": str(self.data_dir), "listeners": self._listeners(address)}
        if config.registry_address() is not None:
            chosen["kwire.registry.listen"] = self._registry_address
        config = config.changed(chosen)
        server = Server(
            config,
            disk=self._disk or QuickDisk(),
            clock=self.clock.of_a_server(),
            open_frame=self.faults.open_frame,
        )
        self._serving = None
        self._serving = self._thread.start(server, self._start_timeout_s, old)
        if server.registry is not None:
            self._registry_address = "{}:{}".format(*server.registry.address)
        self._bound([f"{host}:{port}" for host, port in server.addresses])

    def _listeners(self, address: str) -> str:
        """The setting ``listeners``, with ``address`` for clients."""
        return f"PLAINTEXT://{address}"

    def _bound(self, addresses: list[str]) -> None:
        """Take the addresses to which the listeners are bound."""
        [self.bootstrap] = addresses

    def _pass_time(self, span_ms: int) -> None:
        assert self._thread is not None, "the broker has not been started"
        self._thread.pass_time(span_ms, self.clock.pass_ms, self._serving)

    def _end_server(self, *, clean: bool) -> None:
        assert self._thread is not None, "the broker has not been started"
        serving, self._serving = self._serving, None
        self._asker.close()
        if serving is not None:
            self._thread.stop(serving, STOP_TIMEOUT_S, clean=clean)
        raise_bug(serving)

    def _end_thread(self, timeout_s: float) -> None:
        thread, self._thread = self._thread, None
        directory, self._directory = self._directory, None
        assert thread is not None
        if directory is not None:
            thread.at_end = directory.remove
        try:
            thread.end(timeout_s)
        finally:
            COLLECTOR.end(self._log)
            if directory is not None:
                directory.remove()


_STARTED: WeakSet[Kafka] = WeakSet()


def _let_go() -> None:
    for kafka in _STARTED:
        kafka.let_go()


os.register_at_fork(after_in_child=_let_go)


def checked(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings of a test.

    ValueError for settings that the test broker chooses itself, and for names that nobody knows.
    """
    for name in ("log.dir", "log.dirs", "listeners"):
        if name in settings:
            raise ValueError(f"{name} is chosen by kwire.testing; data_dir= names a directory")
    texts = {name: setting(value) for name, value in settings.items()}
    unknown = [f"there is no setting {name}{hint(name)}" for name in unknown_names(texts)]
    if unknown:
        raise ValueError("\n".join(unknown))
    return dict(settings)


@lru_cache(maxsize=16)
def _config(given: frozenset[tuple[str, str]]) -> BrokerConfig:
    """The settings of a test broker. They are parsed once, as this is a third of a start."""
    return BrokerConfig.load(TEST_SETTINGS | dict(given))


def raise_bug(serving: Serving | None) -> None:
    """Raise the first unexpected exception of a server that has ended."""
    if serving is None:
        return
    if serving.error is not None:
        raise serving.error
    bugs = serving.server.broker.bugs
    if bugs:
        first = bugs[0]
        bugs.clear()
        raise first
