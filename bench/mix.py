"""``python -m bench.mix BOOTSTRAP TOPIC SECONDS OFFSET…``: twenty producers and twenty consumers.

Each pair of a producer and a consumer has its own partition, each client its own connection. A
producer sends a hundred batches a second, each of ten records of 100 bytes, at even intervals,
whether or not earlier batches were acknowledged. Its consumer always has a long-polling fetch in
flight. OFFSET is the next offset of each partition. Latencies count from the sending of a batch: to
its acknowledgement, and to its arrival at the consumer. The program prints one line of JSON. It
ends with an error if a batch was not acknowledged or did not reach its consumer.

All batches have the same length. The number of batches in a response is therefore the response's
length divided by that length, because the rest of a response is shorter than a batch.
"""

import gc
import json
import selectors
import sys
import time
from collections import deque

from bench.load import connected, frame_of
from bench.rows.common import PRODUCE_VERSION, batch, produce_request
from bench.rows.fetch import FETCH_VERSION, fetch_request
from bench.rows.mix import SHARES
from bench.usage import MB

BATCHES_A_SECOND = 100
RECORDS, RECORD_BYTES = 10, 100
WAIT_MS = 500
SENTINEL = 0x1122334455667788
LAST_WAIT_S = 10.0
WARM_UP_SHARE = 0.1
"""The mix runs for this part of the time before the measurement starts."""


class Client:
    """One connection, which splits what it receives into responses."""

    def __init__(self, bootstrap: str) -> None:
        self.socket = connected(bootstrap)
        self._unread = bytearray()

    def responses(self) -> list[int]:
        """The lengths of the responses that are complete now."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise SystemExit("the broker closed the connection")
        self._unread += data
        lengths, position = [], 0
        while len(self._unread) >= position + 4:
            end = position + 4 + int.from_bytes(self._unread[position : position + 4])
            if end > len(self._unread):
                break
            lengths.append(end - position)
            position = end
        del self._unread[:position]
        return lengths


class Producer(Client):
    """Sends the same batch again and again."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(bootstrap)
        request = produce_request(topic, RECORDS, RECORD_BYTES, partition)
        self._frame = frame_of(request, PRODUCE_VERSION)
        self._under_way: deque[float] = deque()
        self.on_the_way: deque[float] = deque()
        self.taken: list[float] = []

    def send(self) -> None:
        """Send a batch."""
        now = time.perf_counter()
        self._under_way.append(now)
        self.on_the_way.append(now)
        self.socket.sendall(self._frame)

    def receive(self) -> None:
        """Receive acknowledgements."""
        lengths = self.responses()
        now = time.perf_counter()
        self.taken += [now - self._under_way.popleft() for _ in lengths]

    @property
    def done(self) -> bool:
        """Whether every batch was acknowledged and has reached its consumer."""
        return not self._under_way and not self.on_the_way


class Consumer(Client):
    """Always has a fetch in flight, from its next offset."""

    def __init__(self, bootstrap: str, topic: str, partition: int, offset: int) -> None:
        super().__init__(bootstrap)
        request = fetch_request(topic, SENTINEL, MB, WAIT_MS, partition=partition)
        self._frame = bytearray(frame_of(request, FETCH_VERSION))
        self._place = self._frame.index(SENTINEL.to_bytes(8))
        self._batch_bytes = len(batch(RECORDS, RECORD_BYTES))
        self._offset = offset
        self.taken: list[float] = []

    def fetch(self) -> None:
        """Send a fetch from the next offset."""
        self._frame[self._place : self._place + 8] = self._offset.to_bytes(8)
        self.socket.sendall(self._frame)

    def receive(self, on_the_way: deque[float]) -> None:
        """Receive batches, and fetch again."""
        for length in self.responses():
            now = time.perf_counter()
            count = length // self._batch_bytes
            self.taken += [now - on_the_way.popleft() for _ in range(count)]
            self._offset += count * RECORDS
            self.fetch()


def percentiles_us(taken: list[float]) -> dict[str, float]:
    """The percentiles by name, in microseconds."""
    taken.sort()
    return {name: taken[int((len(taken) - 1) * share)] * 1e6 for name, share in SHARES.items()}


def exchange(producers: list[Producer], consumers: list[Consumer], seconds: float) -> None:
    """Let all clients work for a time, and then wait until everything has arrived."""
    # select(2) waits for microseconds, epoll for whole milliseconds.
    selector = selectors.SelectSelector()
    for producer, consumer in zip(producers, consumers, strict=True):
        selector.register(producer.socket, selectors.EVENT_READ, (producer.receive, ()))
        arguments = (producer.on_the_way,)
        selector.register(consumer.socket, selectors.EVENT_READ, (consumer.receive, arguments))
    count, total = 0, int(seconds * BATCHES_A_SECOND * len(producers))
    interval = 1 / (BATCHES_A_SECOND * len(producers))
    started = time.perf_counter()
    end = started + seconds + LAST_WAIT_S
    while count < total or not all(producer.done for producer in producers):
        now = time.perf_counter()
        if now > end:
            raise SystemExit("records have not arrived")
        while count < total and started + count * interval <= now:
            producers[count % len(producers)].send()
            count += 1
        due = started + count * interval if count < total else now + 0.1
        for key, _ in selector.select(max(0.0, due - time.perf_counter())):
            receive, arguments = key.data
            receive(*arguments)


def main() -> None:
    """Run the mix and print its numbers."""
    bootstrap, topic, seconds, *offsets = sys.argv[1:]
    producers = [Producer(bootstrap, topic, n) for n in range(len(offsets))]
    consumers = [Consumer(bootstrap, topic, n, int(offset)) for n, offset in enumerate(offsets)]
    gc.disable()
    cpu_before, started = time.process_time(), time.perf_counter()
    try:
        for consumer in consumers:
            consumer.fetch()
        exchange(producers, consumers, float(seconds) * WARM_UP_SHARE)
        for client in (*producers, *consumers):
            client.taken.clear()
        exchange(producers, consumers, float(seconds))
    except TimeoutError as error:
        raise SystemExit("the broker accepts no more data") from error
    share = (time.process_time() - cpu_before) / (time.perf_counter() - started)
    acknowledged = [taken for producer in producers for taken in producer.taken]
    arrived = [taken for consumer in consumers for taken in consumer.taken]
    numbers = {
        "acknowledged": percentiles_us(acknowledged),
        "arrived": percentiles_us(arrived),
        "batches": len(arrived) * (1 + WARM_UP_SHARE),
        "generator_share": share,
    }
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
