"""Bytes over real sockets: directly where they can go at once, through trio's loop where not."""

import pytest
import trio

from kwire.client.connection import Connection
from kwire.client.settings import ClientSettings
from kwire.client.transport import BYTES_PER_TURN, Transport
from kwire.protocol.frame import encode_response
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

VERSION = 12
LARGE = bytes(range(256)) * 20_000


async def pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Both ends of a connection on this machine."""
    listener = trio.socket.socket()
    with listener:
        await listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ours = await trio.open_tcp_stream(*listener.getsockname())
        theirs, _ = await listener.accept()
    return ours, trio.SocketStream(theirs)


async def test_more_than_a_socket_takes_arrives_whole(nursery):
    """What doesn't go at once is sent while the other side reads."""
    ours, theirs = await pair()
    nursery.start_soon(Transport(ours).send_all, LARGE)
    found = bytearray()
    other = Transport(theirs)
    while len(found) < len(LARGE):
        found += await other.receive_some(1 << 16)
    assert found == LARGE
    await other.close()
    await ours.aclose()


async def test_the_end_of_a_connection_is_no_byte(nursery):
    """As trio's own streams tell it; so do a closed stream and one that was reset."""
    ours, theirs = await pair()
    mine = Transport(ours)
    await theirs.send_all(b"last")
    await theirs.aclose()
    assert await mine.receive_some(100) == b"last"
    assert await mine.receive_some(100) == b""
    await mine.close()
    with pytest.raises(trio.ClosedResourceError):
        await mine.receive_some(100)
    with pytest.raises(trio.ClosedResourceError):
        await mine.send_all(b"more")


async def test_who_receives_very_much_lets_others_have_a_turn(nursery):
    """Though there are always more bytes."""
    ours, theirs = await pair()
    nursery.start_soon(theirs.send_all, bytes(4 * BYTES_PER_TURN))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as counting:
        counting.start_soon(count)
        mine, done = Transport(ours), 0
        while done < 4 * BYTES_PER_TURN:
            done += len(await mine.receive_some(1000))
        assert turns >= 3
        counting.cancel_scope.cancel()
    await mine.close()


async def test_a_large_answer_and_the_next_one(nursery):
    """It is received to where it stays; what follows it belongs to the next answer."""
    ours, theirs = await pair()
    connection = Connection(ours, "h:1", ClientSettings())
    nursery.start_soon(connection.run)
    answers = []
    for correlation_id, records in enumerate((LARGE, b"small"), 1):
        data = PartitionData(partition_index=0, high_watermark=1, records=records)
        topic = FetchableTopicResponse(topic="t", partitions=[data])
        parts = encode_response(FetchResponse(responses=[topic]), VERSION, correlation_id)
        answers.append(b"".join(bytes(part) for part in parts))
    pending = [await connection.send(FetchRequest(), FetchResponse, VERSION) for _ in answers]
    nursery.start_soon(theirs.send_all, b"".join(answers))
    for wanted, answer in zip((LARGE, b"small"), pending, strict=True):
        response = await answer.wait(5)
        assert bytes(response.responses[0].partitions[0].records) == wanted
    connection.close()
