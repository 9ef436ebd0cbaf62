"""A worker and its supervisor: who dies is missed at once, and what is no frame ends one link."""

import socket
from contextlib import aclosing

import pytest
import trio
import trio.testing

from kwire.cluster_server import ClusterServer
from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import ProducerIdsAllocated
from kwire.metadata.embedded import FILE_NAME, EmbeddedStore
from kwire.metadata.store import Member, OutcomeUnknown, RevisionConflict, StoreUnusable
from kwire.metadata.supervised import frames
from kwire.metadata.supervised.client import SupervisedStore
from kwire.metadata.supervised.server import serve_worker
from kwire.metadata.supervised.turns import CONFLICTS, LONGEST_S, Turns

WAIT_S = 10


@pytest.fixture
async def store(tmp_path):
    """The supervisor's store."""
    opened = EmbeddedStore.open(tmp_path / FILE_NAME, is_durable=False)
    yield opened
    await opened.close()


def _pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    first, second = (trio.socket.from_stdlib_socket(one) for one in socket.socketpair())
    return trio.SocketStream(first), trio.SocketStream(second)


async def test_the_end_of_a_connection_ends_the_session(store):
    """No lease has to run out; the others see it at once."""
    ours, theirs = _pair()
    async with trio.open_nursery() as nursery, aclosing(store.sessions()) as sessions:
        nursery.start_soon(serve_worker, theirs, store)

        async def live_and_die() -> None:
            with pytest.raises(StoreUnusable):
                await worker.run()

        worker = SupervisedStore(ours)
        nursery.start_soon(live_and_die)
        session = await worker.begin_session(Member(1, "a"), 9000)
        assert 1 in (await anext(sessions)).members
        await worker.close()
        with trio.fail_after(WAIT_S):
            assert (await anext(sessions)).members == {}
        assert session.is_over


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_worker_that_sends_nothing_hangs(store, hangs, autojump_clock):
    """After its session's time to live; a worker that gives signs of life never hangs."""
    ours, theirs = trio.testing.memory_stream_pair()
    worker, life, said = SupervisedStore(ours), trio.CancelScope(), []

    async def live() -> None:
        with life:
            await worker.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_worker, theirs, store, None, said.append)
        nursery.start_soon(live)
        for _ in range(2):  # the first session is ended by others, as by a wrong proof of death
            session = await worker.begin_session(Member(1, "a"), 9000)
            with trio.move_on_after(60):
                await trio.sleep_forever()
            assert said == []
            await store.end(session.guard)
            with trio.move_on_after(60):
                await trio.sleep_forever()
            assert session.is_over
        await worker.begin_session(Member(1, "a"), 9000)
        if hangs:
            life.cancel()
        for seconds, told in ((8, []), (2, [9000]), (60, [9000])):
            with trio.move_on_after(seconds):
                await trio.sleep_forever()
            assert said == (told if hangs else [])
        nursery.cancel_scope.cancel()


async def test_a_worker_learns_that_its_supervisor_has_ended(store):
    """``run`` says so in one line, and calls in progress end with an error."""
    ours, theirs = _pair()
    worker = SupervisedStore(ours)
    ended = trio.Event()

    async def run() -> None:
        with pytest.raises(StoreUnusable, match="supervisor of this worker has ended"):
            await worker.run()
        ended.set()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as supervisor:
            supervisor.start_soon(serve_worker, theirs, store)
            nursery.start_soon(run)
            session = await worker.begin_session(Member(1, "a"), 9000)
            supervisor.cancel_scope.cancel()
        with trio.fail_after(WAIT_S):
            await ended.wait()
    assert session.is_over
    with pytest.raises(OutcomeUnknown):
        await worker.commit(0, [ProducerIdsAllocated(1)])
    with pytest.raises(KafkaError) as refused:
        await worker.read()
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_another_version_is_refused(store, monkeypatch):
    """By both sides; the text says what to do."""
    ours, theirs = _pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_worker, theirs, store)
        other = frames.FrameStream(ours)
        await other.send(frames.encode_frame({"format": 2}))
        assert await other.receive() == {"format": 1}
        with trio.fail_after(WAIT_S):
            assert await other.receive() is None
    ours, theirs = _pair()
    await frames.FrameStream(theirs).send(frames.encode_frame({"format": 2}))
    with pytest.raises(StoreUnusable, match=r"different versions of kwire.*start them again"):
        await SupervisedStore(ours).run()


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xff\xff\xffxxxx",
        b"\0\0\0\x04nope",
        b"\0\0\0\x02[]",
        frames.encode_frame({"id": 1, "call": "unknown"}),
        frames.encode_frame({"call": "read"}),
        frames.encode_frame({"id": 1, "call": "commit", "revision": 0}),
    ],
)
async def test_what_is_no_call_ends_the_connection(store, content):
    """And nothing else: the store goes on."""
    ours, theirs = _pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_worker, theirs, store)
        await ours.send_all(frames.encode_frame({"format": 1}) + content)
        with trio.fail_after(WAIT_S):
            while await ours.receive_some(1000):
                pass
    assert await store.commit(0, [ProducerIdsAllocated(1)]) == 1


async def test_a_commit_that_fits_no_frame_is_refused(store, monkeypatch):
    """Nothing is sent of it."""
    ours, theirs = _pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_worker, theirs, store)
        worker = SupervisedStore(ours)
        nursery.start_soon(worker.run)
        await worker.read()
        monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 1000)
        with pytest.raises(KafkaError, match="too many for a frame") as refused:
            await worker.commit(0, [ProducerIdsAllocated(number) for number in range(100)])
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await worker.read()).revision == 0
        nursery.cancel_scope.cancel()


async def test_a_worker_that_reads_first_comes_through_a_flood(store):
    """Another one commits without a pause; a start loses only so many races."""
    turns = Turns()
    async with trio.open_nursery() as nursery:
        workers = []
        for _ in range(2):
            ours, theirs = _pair()
            nursery.start_soon(serve_worker, theirs, store, turns)
            workers.append(SupervisedStore(ours))
            nursery.start_soon(workers[-1].run)

        async def flood() -> None:
            revision = 0
            while True:
                try:
                    revision = await workers[0].commit(revision, [ProducerIdsAllocated(1)])
                except RevisionConflict:
                    revision = (await workers[0].read()).revision

        nursery.start_soon(flood)
        lost = 0
        with trio.fail_after(WAIT_S):
            while lost <= CONFLICTS + 1:
                revision = (await workers[1].read()).revision
                looks = 0  # a large image takes long to read: the other one commits meanwhile
                while (await workers[1].read()).revision == revision:
                    looks += 1
                    if lost >= CONFLICTS and looks == 10:  # the other one has to wait
                        break
                try:
                    await workers[1].commit(revision, [ProducerIdsAllocated(2)])
                    break
                except RevisionConflict:
                    lost += 1
        assert CONFLICTS <= lost <= CONFLICTS + 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ends", ["leave", "too late"])
async def test_the_right_of_way_ends(ends, nursery, autojump_clock):
    """A worker that has it and doesn't commit keeps the others waiting for a moment only."""
    turns, committed = Turns(), []

    async def lose() -> int:
        raise RevisionConflict

    async def win() -> int:
        committed.append(trio.current_time())
        return 1

    for _ in range(CONFLICTS):
        with pytest.raises(RevisionConflict):
            await turns.commit("slow", lose)
    began_s = trio.current_time()
    nursery.start_soon(turns.commit, "other", win)
    with trio.move_on_after(LONGEST_S / 2):
        await trio.sleep_forever()
    assert not committed
    if ends == "leave":
        turns.leave("slow")
    with trio.move_on_after(LONGEST_S):
        await trio.sleep_forever()
    assert committed == [began_s + LONGEST_S / (2 if ends == "leave" else 1)]


class NotedStore(SupervisedStore):
    """Notes in which order the reading and the connection end."""

    def __init__(self, stream: trio.SocketStream) -> None:
        super().__init__(stream)
        self.ends: list[str] = []

    async def run(self) -> None:
        """Read."""
        try:
            await super().run()
        finally:
            self.ends.append("run")

    async def close(self) -> None:
        """Close the connection."""
        self.ends.append("close")
        await super().close()


async def test_a_server_that_stops_reads_no_store_that_is_closed(store, tmp_path):
    """A frame that came at the last moment would end a clean stop with an error."""
    ours, theirs = _pair()
    noted = NotedStore(ours)

    class Stopping(ClusterServer):
        async def _connect(self) -> NotedStore:
            return noted

    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    server = Stopping(BrokerConfig.load(settings))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_worker, theirs, store)
        async with trio.open_nursery() as serving:
            await serving.start(server.serve)
            server.stop()
    assert noted.ends[:2] == ["run", "close"]


async def test_a_stream_that_this_side_closes_has_an_end():
    """Whoever reads it gets no error."""
    ours, theirs = _pair()
    stream = frames.FrameStream(ours)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_see_the_end, stream)
        await trio.testing.wait_all_tasks_blocked()
        await stream.close()
    await theirs.aclose()


async def _see_the_end(stream: frames.FrameStream) -> None:
    assert await stream.receive() is None
