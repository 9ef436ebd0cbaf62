"""Following a leader without a task for each answer: what a fetch connection needs of its fetcher.

Rules:

- A fetch connection needs a poller, a connection over a plain socket, a leader that serves version
  18, and a session that has begun. While replication is throttled, there is no fetch connection.
- The fetcher sends a request that may name more than ``MOST_NAMED`` partitions: it may not fit into
  the buffer of a socket.
- From ``lend`` to ``take_back``, only the fetch connection uses the connection.
"""

from collections.abc import Callable
from typing import NamedTuple

import trio

from kwire.broker.replica.fetching import FIRST_EPOCH, Fetching, Limits, Outcome
from kwire.broker.replica.fetching_broker import FetchingBroker
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.replica_fetch_connection import Left, ReplicaFetchConnection, Watcher
from kwire.client.connection import Connection
from kwire.client.peer import Peer
from kwire.client.versions import pick
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse

GIVEN_UP = Left(failure="given up")
NO_ANSWER = Left(failure="no answer in time")

VERSION = 18
MOST_NAMED = 200


class Sender(NamedTuple):
    """The broker that fetches: its node id, and the epoch of its registration."""

    node_id: int
    broker_epoch: int


def limits_of(broker: FetchingBroker) -> Limits:
    """The current settings of fetches."""
    integer = broker.integer
    return Limits(
        integer("replica.fetch.wait.max.ms"),
        integer("replica.fetch.min.bytes"),
        integer("replica.fetch.response.max.bytes"),
        integer("replica.fetch.max.bytes"),
    )


def sender_of(broker: FetchingBroker) -> Sender:
    """A broker's node id and registered epoch, -1 if it isn't registered."""
    own = broker.image.brokers.get(broker.node_id)
    return Sender(broker.node_id, -1 if own is None else own.epoch)


class TasklessFetching:
    """What a fetcher's fetch connections use of it; see ``replica_fetch_connection.Lender``.

    ``has_news`` and ``is_over`` are functions of the fetcher. ``asking`` is the cancel scope of the
    wait for a fetch connection.
    """

    def __init__(
        self,
        broker: FetchingBroker,
        fetching: Fetching[FollowerPartition],
        client_id: str,
        has_news: Callable[[], bool],
        is_over: Callable[[FollowerPartition], bool],
    ) -> None:
        self.fetching = fetching
        self.has_news = has_news
        self.is_over = is_over
        self.asking: trio.CancelScope | None = None
        self._broker = broker
        self._client_id = client_id
        self._seen: object = None
        self._limits = limits_of(broker)
        self._sender = sender_of(broker)

    def limits(self) -> Limits:
        """The settings of fetches."""
        self._look_at_image()
        return self._limits

    def sender(self) -> Sender:
        """This broker, as the fetch request names it."""
        self._look_at_image()
        return self._sender

    def _look_at_image(self) -> None:
        """Look up again what an image tells, if there is a new one."""
        if self._broker.image is not self._seen:
            self._seen = self._broker.image
            self._limits = limits_of(self._broker)
            self._sender = sender_of(self._broker)

    def now_ms(self) -> int:
        """The time of day."""
        return self._broker.clock.now_ms()

    def backoff_s(self) -> float:
        """How long a partition rests at most after an error."""
        return self._broker.integer("replica.fetch.backoff.ms") / 1000

    def request(self, number: int, now_s: float) -> bytearray | None:
        """The frame of the next request; None if the fetcher has to send it."""
        fetching = self.fetching
        may_be_named = len(fetching.to_look_at) + len(fetching.resting)
        if fetching.epoch == FIRST_EPOCH or may_be_named > MOST_NAMED:
            return None
        asked = fetching.request(*self.sender(), self.limits(), now_s)
        return None if asked is None else encode_request(asked, VERSION, number, self._client_id)

    def outcome(self, frame: memoryview, now_s: float) -> Outcome[FollowerPartition]:
        """The work that follows from an answer; MalformedRequest. Records are views of it."""
        _, position = decode_response_header(frame, FetchResponse, VERSION)
        response = decode(FetchResponse, VERSION, frame[position:])
        return self.fetching.apply_response(response, now_s, self.backoff_s())

    async def run(self, peer: Peer) -> Left | None:
        """Fetch by a fetch connection; the work that it has left, None if none could begin."""
        watcher = self._broker.watcher
        if watcher is None or self.fetching.epoch == FIRST_EPOCH or not peer.is_connected:
            return None
        if self._broker.throttles is not None or self.has_news():
            return None
        connection, served = await peer.connected()
        if pick(FetchRequest, served, peer.address) < VERSION:
            return None
        return await self._over(connection, watcher)

    async def _over(self, connection: Connection, watcher: Watcher) -> Left | None:
        fd, number = await connection.lend()
        if fd < 0:
            return None
        fetch_connection = ReplicaFetchConnection(
            fd, watcher, self, number, connection.settings.max_response_bytes
        )
        try:
            if not self.has_news():
                fetch_connection.begin()
                fetch_connection.asked_s = trio.current_time()
                await self._wait_for(fetch_connection)
        finally:
            fetch_connection.end(GIVEN_UP)
            connection.take_back(fetch_connection.number)
        return fetch_connection.left if fetch_connection.has_asked else None

    async def _wait_for(self, fetch_connection: ReplicaFetchConnection) -> None:
        """Wait until a connection is over, its leader doesn't answer, or the wait is given up."""
        integer = self._broker.integer
        while not fetch_connection.is_over:
            patience_ms = integer("replica.socket.timeout.ms") + integer(
                "replica.fetch.wait.max.ms"
            )
            end_s = fetch_connection.asked_s + patience_ms / 1000
            if trio.current_time() >= end_s:
                fetch_connection.end(NO_ANSWER)
                return
            with trio.CancelScope(deadline=end_s) as self.asking:
                await fetch_connection.over.wait()
            scope, self.asking = self.asking, None
            if scope is not None and scope.cancelled_caught and self.has_news():
                return
