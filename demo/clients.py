"""The demo's stock clients: one idempotent producer, and a group of counting consumers."""

import json
import logging
import threading
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer

from demo.flights import Delays, Flight

TIMEOUT_S = 60
QUIET = logging.getLogger("demo.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class FlightProducer(threading.Thread):
    """Writes every flight exactly once, even if the broker crashes meanwhile."""

    def __init__(self, bootstrap: str, topic: str, flights: Sequence[Flight]) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self._topic = topic
        self._flights = flights
        self._failure: BaseException | None = None
        self._progress = threading.Event()
        config = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 5000,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
        self._producer = Producer(config, logger=QUIET)

    def run(self) -> None:
        """Write all flights."""
        try:
            for sequence, flight in enumerate(self._flights):
                self._write(sequence, flight)
            if self._producer.flush(TIMEOUT_S):
                raise TimeoutError("the broker did not acknowledge everything")
        except BaseException as error:
            self._failure = error

    def _write(self, sequence: int, flight: Flight) -> None:
        value, key = flight.to_json(sequence), flight.carrier.encode()
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: wait for acknowledgements
                continue
            self._producer.poll(0)
            return

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failure = RuntimeError(str(error))
        self.acknowledged += 1
        if self.acknowledged % 1000 == 0:
            self._progress.set()

    def check(self) -> None:
        """Raise the producer's error, if it had one."""
        if self._failure is not None:
            raise self._failure

    def wait_progress(self) -> None:
        """Wait for more acknowledgements, at most 0.1 s."""
        self._progress.wait(0.1)
        self._progress.clear()


class CountingGroup:
    """Consumers of one group, which count each flight once even if they read it several times."""

    def __init__(self, bootstrap: str, topic: str, members: int) -> None:
        self.repeated = 0
        self._seen: dict[int, tuple[str, float | None, float | None]] = {}
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(bootstrap, topic), daemon=True)
            for _ in range(members)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def count(self) -> int:
        """The number of different flights that were read."""
        return len(self._seen)

    def _run(self, bootstrap: str, topic: str) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": "delays",
            "log_level": 0,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
        try:
            consumer = Consumer(config, logger=QUIET)
            consumer.subscribe([topic])
            while not self._stop.is_set():
                for message in consumer.consume(1000, 0.2):
                    if message.error() is None:
                        self._note(json.loads(message.value() or b""))
            consumer.close()
        except BaseException as error:
            self._failure = error

    def _note(self, flight: dict[str, object]) -> None:
        sequence = flight["sequence"]
        assert isinstance(sequence, int)
        values = (flight["carrier"], flight["dep_delay"], flight["arr_delay"])
        with self._lock:
            self.repeated += sequence in self._seen
            self._seen[sequence] = values  # type: ignore[assignment]

    def check(self) -> None:
        """Raise a consumer's error, if there was one."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let all consumers leave the group."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def delays(self) -> dict[str, Delays]:
        """The delays of each carrier in the flights that were read."""
        delays: dict[str, Delays] = {}
        for carrier, dep_delay, arr_delay in self._seen.values():
            delays[carrier] = delays.get(carrier, Delays()).with_flight(dep_delay, arr_delay)
        return delays
