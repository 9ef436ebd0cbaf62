"""A link: what it does with its socket, and what it leaves to its fetcher."""

import selectors
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.broker.replica import replica_fetch_connection, taskless_fetching
from kwire.broker.replica.fetching import Fetching
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.replica_fetch_connection import Left, ReplicaFetchConnection
from kwire.broker.replica.taskless_fetching import TasklessFetching
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_request_header, encode_response, skip_header_tags
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.broker.following import NOW_MS, TOPIC_ID, batch_at

SESSION, VERSION = 99, 18
MOST_BYTES = 3_000_000
PARTITIONS = 2


SETTINGS = {
    "replica.fetch.wait.max.ms": 500,
    "replica.fetch.min.bytes": 1,
    "replica.fetch.response.max.bytes": 10_000_000,
    "replica.fetch.max.bytes": 1_000_000,
    "replica.fetch.backoff.ms": 1_000,
}


def broker() -> Any:
    """Broker 2, as far as its fetches need it."""
    image = SimpleNamespace(brokers={2: SimpleNamespace(epoch=77)})
    clock = SimpleNamespace(now_ms=lambda: NOW_MS)
    return SimpleNamespace(node_id=2, image=image, clock=clock, integer=SETTINGS.__getitem__)


class Lender(TasklessFetching):
    """That of a fetcher whose session has begun, with two partitions."""

    def __init__(self, directory: Path, **config: Any) -> None:
        fetching: Fetching[FollowerPartition] = Fetching()
        self.news = False
        super().__init__(
            broker(), fetching, "f", lambda: self.news, lambda partition: partition.is_deleted
        )
        self.logs = LogManager.open([directory], node_id=2, now_ms=NOW_MS, disk=Disk())
        self.partitions = []
        for index in range(PARTITIONS):
            log = self.logs.get_or_create("t", index, TOPIC_ID, LogConfig(**config), NOW_MS)
            self.partitions.append(FollowerPartition("t", index, TOPIC_ID, log, 1, 5, 0))
            fetching.follow(self.partitions[-1])
        fetching.request(2, 77, self.limits(), 0.0)
        fetching.apply_response(FetchResponse(session_id=SESSION), 0.0, 1.0)

    @property
    def ends(self) -> list[int]:
        """Where the logs end."""
        return [one.log.log_end_offset for one in self.partitions]


class Watcher:
    """A poller that is turned by hand."""

    def __init__(self) -> None:
        self.now_s = 12.0
        self.expects_nothing = False
        self.watched: set[ReplicaFetchConnection] = set()
        self.again: list[ReplicaFetchConnection] = []

    def watch(self, connection: ReplicaFetchConnection) -> None:
        """It is watched."""
        self.watched.add(connection)

    def unwatch(self, connection: ReplicaFetchConnection) -> None:
        """It isn't any more."""
        self.watched.remove(connection)

    def serve_again(self, connection: ReplicaFetchConnection) -> None:
        """It has more to do."""
        self.again.append(connection)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection, where a mark for readable bytes has an effect."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        near = socket.create_connection(bound.getsockname())
        return near, bound.accept()[0]


class Desk:
    """A link that has begun, and its leader's end of the connection."""

    def __init__(self, directory: Path, *, is_tcp: bool = False, **config: Any) -> None:
        self.lender = Lender(directory, **config)
        self.watcher = Watcher()
        self.near, self.leader = tcp_pair() if is_tcp else socket.socketpair()
        self.near.setblocking(False)
        self.fetch_connection = ReplicaFetchConnection(
            self.near.fileno(), self.watcher, self.lender, 6, MOST_BYTES
        )
        self.fetch_connection.begin()

    def asked(self) -> FetchRequest | None:
        """The request that the leader has got; None if there is none."""
        self.leader.setblocking(False)
        try:
            frame = self.leader.recv(100_000)
        except BlockingIOError:
            return None
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        header, position = decode_request_header(frame, 4)
        assert (header.api_key, header.api_version, header.client_id) == (1, VERSION, "f")
        assert header.correlation_id == self.fetch_connection.number
        body = memoryview(frame)[skip_header_tags(frame, position) :]
        request: FetchRequest = decode(FetchRequest, VERSION, body)
        return request

    def frame(self, *data: PartitionData, number: int = 0) -> bytes:
        """An answer."""
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(data))] if data else []
        response = FetchResponse(session_id=SESSION, responses=topics)
        return bytes(encode_response(response, VERSION, number or self.fetch_connection.number)[0])

    def says(self, frame: bytes) -> None:
        """The leader answers, as much as the socket takes at a time."""
        self.leader.setblocking(False)
        while frame:
            frame = frame[self.leader.send(frame) :]
            self.fetch_connection.on_readable()

    @property
    def is_over(self) -> bool:
        """Whether the fetcher has been told, and the socket is watched no more."""
        assert (
            self.fetch_connection.over.is_set()
            == self.fetch_connection.is_over
            == (not self.watcher.watched)
        )
        return self.fetch_connection.is_over


def of(index: int, records: bytes, **fields: Any) -> PartitionData:
    """A partition of an answer."""
    values: dict[str, Any] = {"error_code": 0, "high_watermark": 1, "log_start_offset": 0}
    return PartitionData(
        partition_index=index, records=records, aborted_transactions=None, **(values | fields)
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A link that has asked for the first time."""
    made = Desk(tmp_path)
    yield made
    made.near.close()
    made.leader.close()
    made.lender.logs.close(NOW_MS)


def test_a_link_fetches_and_appends_and_asks_again(desk: Desk) -> None:
    """In one call, without its fetcher: the next request names what has moved."""
    first = desk.asked()
    assert first is not None
    assert (first.session_id, first.session_epoch, first.topics) == (SESSION, 1, [])
    assert desk.fetch_connection.asked_s == desk.watcher.now_s
    assert desk.watcher.expects_nothing
    desk.says(desk.frame(of(1, batch_at(0, b"a", b"b"), high_watermark=2)))
    second = desk.asked()
    assert second is not None
    [named] = second.topics[0].partitions
    assert (named.partition, named.fetch_offset, named.high_watermark) == (1, 2, 2)
    assert (second.session_epoch, desk.lender.ends) == (2, [0, 2])
    desk.says(desk.frame())
    third = desk.asked()
    assert third is not None
    assert (third.session_epoch, third.topics, desk.is_over) == (3, [], False)


def test_an_answer_may_arrive_in_pieces(desk: Desk) -> None:
    """And be larger than the buffer, which is small again when nothing comes."""
    data = batch_at(0, bytes(900_000), bytes(900_000))
    frame = desk.frame(of(0, data, high_watermark=2))
    for end in (3, 5, 70_000):
        desk.says(frame[:end])
        frame = frame[end:]
        assert desk.lender.ends == [0, 0]
    desk.says(frame)
    assert (desk.lender.ends, desk.is_over) == ([2, 0], False)
    assert desk.fetch_connection.buffer_bytes > replica_fetch_connection.FIRST_BYTES
    desk.says(desk.frame())
    assert desk.fetch_connection.buffer_bytes == replica_fetch_connection.FIRST_BYTES


def low_water(sock: socket.socket) -> int:
    """How many bytes have to be there before the socket is readable."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_the_rest_of_a_large_answer_arrives_with_one_wake_up(desk: Desk) -> None:
    """The socket is readable when all of it is there; for the next answer, with its first byte."""
    frame = desk.frame(of(0, batch_at(0, bytes(300_000)), high_watermark=1))
    desk.says(frame[:100_000])
    assert low_water(desk.near) == len(frame) - replica_fetch_connection.FIRST_BYTES
    desk.fetch_connection.on_readable()
    assert low_water(desk.near) == len(frame) - 100_000
    desk.says(frame[100_000:])
    assert (low_water(desk.near), desk.lender.ends, desk.is_over) == (1, [1, 0], False)


def test_the_fetchers_socket_is_readable_with_its_first_byte(desk: Desk) -> None:
    """Also if the link ends within an answer; its socket stays open."""
    frame = desk.frame(of(0, batch_at(0, bytes(300_000)), high_watermark=1))
    desk.says(frame[:100_000])
    assert low_water(desk.near) > 1
    desk.fetch_connection.end(Left(failure="given up"))
    assert (low_water(desk.near), desk.near.send(b"a")) == (1, 1)


def test_a_link_ends_also_if_its_connection_was_closed_before(desk: Desk) -> None:
    """Within a large answer: when a broker stops, the tasks of a fetcher and of its connection end
    in any order.
    """
    frame = desk.frame(of(0, batch_at(0, bytes(300_000)), high_watermark=1))
    desk.says(frame[:100_000])
    assert low_water(desk.near) > 1
    desk.near.close()
    desk.fetch_connection.end(Left(failure="given up"))
    assert (desk.is_over, desk.fetch_connection.left) == (True, Left(failure="given up"))


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_link_ends_when_its_leader_ends_within_a_large_answer(
    tmp_path: Path, is_reset: bool
) -> None:
    """Half of the answer is there; a poller notices the end, although the rest never comes."""
    desk = Desk(tmp_path, is_tcp=True)
    assert desk.asked() is not None  # unread bytes would make each end a reset
    frame = desk.frame(of(0, batch_at(0, bytes(300_000)), high_watermark=1))
    desk.says(frame[:100_000])
    if is_reset:
        desk.leader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    desk.leader.close()
    with selectors.DefaultSelector() as selector:
        selector.register(desk.fetch_connection, selectors.EVENT_READ)
        while not desk.fetch_connection.is_over:
            assert selector.select(1.0)
            desk.fetch_connection.on_readable()
    assert desk.is_over
    assert ("reset" if is_reset else "closed") in desk.fetch_connection.left.failure
    desk.near.close()


def test_others_have_their_turn_between_large_appends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the answer is appended in the next turn, but not for a role that is over."""
    monkeypatch.setattr(replica_fetch_connection, "BYTES_PER_TURN", 1)
    desk.asked()
    desk.says(desk.frame(of(0, batch_at(0, b"a")), of(1, batch_at(0, b"a"))))
    assert (desk.lender.ends, desk.watcher.again, desk.asked()) == (
        [1, 0],
        [desk.fetch_connection],
        None,
    )
    desk.lender.partitions[1].delete()
    desk.fetch_connection.on_readable()
    assert desk.lender.ends == [1, 0]
    assert desk.asked() is not None


def test_news_are_for_the_fetcher(desk: Desk) -> None:
    """After the answer on its way is appended: no request is lost, and none is sent."""
    desk.asked()
    desk.lender.news = True
    desk.says(desk.frame(of(0, batch_at(0, b"a"))))
    assert (desk.lender.ends, desk.is_over, desk.fetch_connection.left, desk.asked()) == (
        *([1, 0], True, Left()),
        None,
    )


def test_an_answer_that_asks_for_more_than_appends_is_for_the_fetcher(desk: Desk) -> None:
    """What follows from it is known, and nothing of it was appended."""
    desk.says(desk.frame(of(0, batch_at(0, b"a")), of(1, b"", error_code=1)))
    assert (desk.lender.ends, desk.is_over) == ([0, 0], True)
    outcome = desk.fetch_connection.left.outcome
    assert outcome is not None
    assert [partition for partition, _ in outcome.appends] == desk.lender.partitions[:1]
    assert outcome.out_of_range == desk.lender.partitions[1:]


def test_a_partition_with_an_error_rests(desk: Desk) -> None:
    """The others are appended, and the next request leaves it out."""
    desk.asked()
    desk.says(desk.frame(of(0, batch_at(0, b"a")), of(1, b"", error_code=6)))
    assert (desk.lender.ends, desk.is_over) == ([1, 0], False)
    asked = desk.asked()
    assert asked is not None
    assert [one.partitions for one in asked.forgotten_topics_data] == [[1]]
    assert asked.max_wait_ms == 10


def test_a_malformed_answer_ends_the_connection(desk: Desk) -> None:
    """Its last byte is missing."""
    frame = bytearray(desk.frame(of(0, batch_at(0, b"a")))[:-1])
    frame[:4] = (len(frame) - 4).to_bytes(4)
    desk.says(bytes(frame))
    assert (desk.lender.ends, desk.is_over) == ([0, 0], True)
    assert "malformed" in desk.fetch_connection.left.failure


def test_the_rest_after_a_failed_append_is_for_the_fetcher(desk: Desk) -> None:
    """The batch that fails and those after it; what was before is appended."""
    damaged = bytearray(batch_at(0, b"abcdef"))
    damaged[-1] ^= 1
    desk.says(desk.frame(of(1, batch_at(0, b"a")), of(0, bytes(damaged))))
    assert (desk.lender.ends, desk.is_over) == ([0, 1], True)
    outcome = desk.fetch_connection.left.outcome
    assert outcome is not None
    [(partition, data)] = outcome.appends
    assert (partition, bytes(data.records)) == (desk.lender.partitions[0], bytes(damaged))


def test_what_has_to_be_flushed_is_for_the_fetcher(tmp_path: Path) -> None:
    """Before the next request says that it is here (flush.messages)."""
    desk = Desk(tmp_path, flush_messages=1)
    desk.asked()
    desk.says(desk.frame(of(0, batch_at(0, b"a"))))
    assert (desk.is_over, desk.asked()) == (True, None)
    assert desk.fetch_connection.left == Left(due=(desk.lender.partitions[0],))


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"", "the broker closed the connection"),
        ((MOST_BYTES + 1).to_bytes(4), "it answers with a frame of 3000001 bytes"),
        (b"\xff" * 4, "it answers with a frame of -1 bytes"),
        (bytes(3) + b"\4" + bytes(5), "it sent an answer that nothing was asked for"),
        (bytes(3) + b"\4" + bytes(4), "its answer has another number"),
    ],
)
def test_a_connection_that_is_of_no_use_is_for_the_fetcher(
    desk: Desk, sent: bytes, why: str
) -> None:
    """With the reason."""
    desk.asked()
    if sent:
        desk.says(sent)
    else:
        desk.leader.close()
        desk.fetch_connection.on_readable()
    assert desk.is_over
    assert desk.fetch_connection.left == Left(failure=why)


def test_a_link_that_is_over_takes_nothing(desk: Desk) -> None:
    """Not even what the poller has found before; its end counts once."""
    desk.fetch_connection.end(Left(failure="first"))
    desk.fetch_connection.end(Left(failure="second"))
    desk.says(desk.frame(of(0, batch_at(0, b"a"))))
    assert (desk.lender.ends, desk.fetch_connection.left) == ([0, 0], Left(failure="first"))


def test_a_partition_that_is_followed_no_more_leaves_the_session(desk: Desk) -> None:
    """With the next request."""
    desk.asked()
    desk.lender.fetching.leave(desk.lender.partitions[0])
    desk.says(desk.frame())
    asked = desk.asked()
    assert asked is not None
    assert [one.partitions for one in asked.forgotten_topics_data] == [[0]]


def test_a_large_request_is_for_the_fetcher(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not fit into the socket's buffer at once."""
    desk.asked()
    monkeypatch.setattr(taskless_fetching, "MOST_NAMED", 1)
    desk.says(desk.frame(of(0, batch_at(0, b"a")), of(1, batch_at(0, b"a"))))
    assert (desk.lender.ends, desk.is_over) == ([1, 1], True)
    assert (desk.fetch_connection.left, desk.asked()) == (Left(), None)
