"""The metadata store of a worker: it asks the supervisor over a Unix socket.

Rules:

- ``run`` reads what the supervisor sends; it has to run before the first call.
- The end of the connection means that the supervisor has ended. Then ``run`` raises StoreUnusable,
  and every call raises KafkaError (REQUEST_TIMED_OUT).
- A session lasts as long as the connection. A worker that hangs still has its connection. So each
  worker sends signs of life, and the supervisor ends the process of a worker that sends none.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, apply, from_items, to_json
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import (
    Commit,
    Guard,
    GuardFailed,
    Member,
    NodeIdTaken,
    OutcomeUnknown,
    RevisionConflict,
    RevisionGone,
    Session,
    Sessions,
    StoreUnusable,
)
from kwire.metadata.supervised.frames import (
    SIGNS_OF_LIFE,
    Frame,
    FrameError,
    FrameStream,
    encode_frame,
)

LOST = "the supervisor of this worker has ended"
INLINE_CHANGES = 200
"""If there are more changes, a thread decodes them."""

_NO_LIMIT = 1 << 30
_ERRORS = {
    error.__name__: error
    for error in (RevisionConflict, RevisionGone, GuardFailed, NodeIdTaken, StoreUnusable)
}


class SupervisedSession:
    """A worker's session; the supervisor ends it when the connection ends."""

    kept_ms = float("inf")

    def __init__(self, store: "SupervisedStore", guard: Guard, ttl_ms: int) -> None:
        self.guard = guard
        self.ttl_ms = ttl_ms
        self.is_over = False
        self._store = store

    async def close(self) -> None:
        """End the session at once."""
        self.is_over = True
        with suppress(KafkaError):  # the supervisor is gone, and the session with it
            await self._store.call({"call": "close_session"})


class SupervisedStore:
    """The store of one worker; ``run`` has to run."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._frames = FrameStream(stream)
        self._answers: dict[int, trio.MemorySendChannel[Frame]] = {}
        self._calls = 0
        self._greeted = trio.Event()
        self._begun = trio.Event()
        self._is_lost = False
        self._session: SupervisedSession | None = None
        self._session_number = 0
        self._threads = ThreadPool(1)

    async def run(self) -> None:
        """Read answers and send signs of life; StoreUnusable when the connection ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._live)
            why = await self._read_answers()
            nursery.cancel_scope.cancel()
        raise StoreUnusable(why)

    async def _live(self) -> None:
        """Send signs of life from the first session on; other sessions may follow."""
        await self._begun.wait()
        assert self._session is not None
        while True:
            with suppress(KafkaError):  # the supervisor is gone, which ``run`` reports
                await self.call({"call": "live"})
            await trio.sleep(self._session.ttl_ms / 1000 / SIGNS_OF_LIFE)

    async def _read_answers(self) -> str:
        """Read until the connection ends; returns the reason of its end."""
        try:
            await self._frames.greet()
            self._greeted.set()
            while (frame := await self._frames.receive()) is not None:
                self._parse_frame(frame)
        except FrameError as error:
            return str(error)
        except trio.BrokenResourceError:
            pass
        finally:
            self._is_lost = True
            if self._session is not None:
                self._session.is_over = True
            self._greeted.set()
            for answers in self._answers.values():
                answers.close()
        return LOST

    def _parse_frame(self, frame: Frame) -> None:
        number = frame["id"]
        if number == self._session_number and "result" in frame and self._session is not None:
            self._session.is_over = True
        answers = self._answers.get(number)
        if answers is not None:
            answers.send_nowait(frame)

    async def read(self) -> MetadataImage:
        """The newest image."""
        changes: list[Change] = []
        async with self._answers_to({"call": "read"}) as answers:
            async for frame in answers:
                _raise_error(frame)
                if "result" in frame:
                    return await self._threads.run(apply, MetadataImage(), changes, frame["result"])
                changes += await self._threads.run(from_items, frame["changes"])
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, LOST)

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Make ``changes`` durable as the next revision; errors as in ``MetadataStore``."""
        fields = {"call": "commit", "revision": expected_revision, "guard": guard}
        async with self._answers_to(fields, to_json(changes)) as answers:
            async for frame in answers:
                _raise_error(frame)
                return int(frame["result"])
        raise OutcomeUnknown(LOST)

    async def watch(self, revision: int) -> AsyncGenerator[Commit, None]:
        """Every commit after ``revision``; RevisionGone. It ends with the connection."""
        async with self._answers_to({"call": "watch", "revision": revision}) as answers:
            async for frame in answers:
                _raise_error(frame)
                if "event" not in frame:
                    return
                items = frame["changes"]
                if len(items) > INLINE_CHANGES:
                    yield Commit(frame["event"], await self._threads.run(from_items, items))
                else:
                    yield Commit(frame["event"], from_items(items))

    async def begin_session(self, member: Member, ttl_ms: int) -> Session:
        """Begin this worker's session; NodeIdTaken."""
        fields = {"call": "begin_session", "member": member, "ttl_ms": ttl_ms}
        async with self._answers_to(fields) as answers:
            async for frame in answers:
                _raise_error(frame)
                session = SupervisedSession(self, Guard(*frame["event"]), ttl_ms)
                self._session, self._session_number = session, frame["id"]
                self._begun.set()
                return session
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, LOST)

    async def sessions(self) -> AsyncGenerator[Sessions, None]:
        """The sessions now, and again after each change. It ends with the connection."""
        async with self._answers_to({"call": "sessions"}) as answers:
            async for frame in answers:
                _raise_error(frame)
                if "event" not in frame:
                    return
                yield _sessions(*frame["event"])

    async def hold_controller(self, session: Session) -> Guard | None:
        """Become the controller; None if another worker is the controller."""
        found = await self.call({"call": "hold_controller"})
        return None if found["result"] is None else Guard(*found["result"])

    async def end(self, guard: Guard) -> None:
        """End a session or a hold whose process is dead."""
        await self.call({"call": "end", "guard": guard})

    async def upkeep(self, image: MetadataImage, guard: Guard) -> None:
        """Ask the supervisor to tidy its store."""
        await self.call({"call": "upkeep", "guard": guard})

    async def close(self) -> None:
        """Close the connection, and with it the session."""
        await self._frames.close()

    async def call(self, fields: Frame) -> Frame:
        """The only answer to a call; KafkaError (REQUEST_TIMED_OUT) if the supervisor is gone."""
        async with self._answers_to(fields) as answers:
            async for frame in answers:
                _raise_error(frame)
                return frame
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, LOST)

    @asynccontextmanager
    async def _answers_to(
        self, fields: Frame, changes: str | None = None
    ) -> AsyncIterator[trio.MemoryReceiveChannel[Frame]]:
        """The channel of a call's answers; it ends with the connection."""
        await self._greeted.wait()
        self._calls += 1
        number = self._calls
        try:
            frame = encode_frame({"id": number, **fields}, changes)
        except FrameError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"metadata: {error}") from error
        assert number not in self._answers, number
        send, receive = trio.open_memory_channel[Frame](_NO_LIMIT)
        self._answers[number] = send
        try:
            if self._is_lost:
                send.close()
            else:
                await self._send(frame, send)
            yield receive
        finally:
            del self._answers[number]

    async def _send(self, frame: bytes, answers: trio.MemorySendChannel[Frame]) -> None:
        """Send a call; no answer will come if the connection has ended."""
        try:
            await self._frames.send(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            answers.close()


def _raise_error(frame: Frame) -> None:
    """Raise the error in an answer, if it has one."""
    if "error" in frame:
        name, code, message = frame["error"]
        if name in _ERRORS:
            raise _ERRORS[name](message)
        raise KafkaError(ErrorCode(code), message)


def _sessions(entries: list[Any], controller: list[Any] | None) -> Sessions:
    members = {
        node_id: (Member(node_id, incarnation, tuple(locks)), Guard(*guard))
        for (node_id, incarnation, locks), guard in entries
    }
    holder = None if controller is None else (controller[0], Guard(*controller[1]))
    return Sessions(members, holder)
