"""The demo's stock producer: every flight, and some garbage among them."""

import logging
import threading
from collections.abc import Sequence

from confluent_kafka import Producer

from demo.flights import Flight

TIMEOUT_S = 60
EACH = 1000
"""Of so many flights, one has a record before it that is no flight."""
GARBAGE = (b"{not json", b'{"sequence": "none", "carrier": "AA"}', b"\xff\xfe\xfd")
QUIET = logging.getLogger("demo.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


class FlightProducer(threading.Thread):
    """Writes every flight exactly once, even if the broker crashes meanwhile.

    In the middle it waits for ``go_on``.
    """

    def __init__(self, bootstrap: str, topic: str, flights: Sequence[Flight]) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.garbage = len(range(EACH // 2, len(flights), EACH))
        self.total = len(flights) + self.garbage
        self.is_done = False
        self._topic = topic
        self._flights = flights
        self._failure: BaseException | None = None
        self._second_half = threading.Event()
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
                if sequence == len(self._flights) // 2:
                    self._producer.flush(TIMEOUT_S)
                    self._second_half.wait()
                if sequence % EACH == EACH // 2:
                    self._write(GARBAGE[sequence // EACH % len(GARBAGE)], flight.carrier)
                self._write(flight.to_json(sequence), flight.carrier)
            if self._producer.flush(TIMEOUT_S):
                raise TimeoutError("the broker did not acknowledge everything")
            self.is_done = True
        except BaseException as error:
            self._failure = error

    def go_on(self) -> None:
        """Write the second half."""
        self._second_half.set()

    def check(self) -> None:
        """Raise the producer's error, if it had one."""
        if self._failure is not None:
            raise self._failure

    def _write(self, value: bytes, carrier: str) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, value, carrier.encode(), on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)  # the queue is full: wait for acknowledgements
                continue
            self._producer.poll(0)
            return

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failure = RuntimeError(str(error))
        self.acknowledged += 1
