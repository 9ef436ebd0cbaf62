"""The supervisor's side: it serves its metadata store to one worker over a connection.

Rules:

- The connection is the worker's session: when it ends, the session ends.
- If a worker sends nothing for the time to live of its session, it hangs. The supervisor ends the
  worker's process, and so its connection.
- Each call is a task of its own, so a watch keeps no other call waiting.
- A worker whose commits come too late again and again gets the right of way (``turns``).
- A malformed message of a worker ends its connection and nothing else.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.errors import KafkaError
from kwire.metadata.changes import from_items, snapshot, to_json
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import (
    Guard,
    GuardFailed,
    Member,
    MetadataStore,
    NodeIdTaken,
    RevisionConflict,
    RevisionGone,
    Session,
    StoreUnusable,
)
from kwire.metadata.supervised.frames import (
    SIGNS_OF_LIFE,
    Frame,
    FrameError,
    FrameStream,
    encode_frame,
)
from kwire.metadata.supervised.turns import Turns

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 << 10
"""About how many bytes of changes one frame of an image has."""

ERRORS = (RevisionConflict, RevisionGone, GuardFailed, NodeIdTaken, StoreUnusable, KafkaError)


async def serve_worker(
    stream: trio.abc.Stream,
    store: MetadataStore,
    turns: Turns | None = None,
    hangs: Callable[[int], None] = lambda ttl_ms: None,
) -> None:
    """Serve one worker until its connection ends; its session ends then.

    ``turns`` are shared by all workers of the store; a single worker needs none. ``hangs`` is
    called when the worker hangs, with the time to live of its session.
    """
    frames = FrameStream(stream)
    turns = turns or Turns()
    worker = _Worker(frames, store, turns, hangs)
    try:
        await frames.greet()
        async with trio.open_nursery() as nursery:
            while (frame := await frames.receive()) is not None:
                worker.silent_times = 0
                nursery.start_soon(worker.do, frame)
            nursery.cancel_scope.cancel()
    except* FrameError as group:
        log.warning("the connection of a worker ended: %s", group.exceptions[0])
    except* trio.BrokenResourceError:
        log.debug("a worker has ended before it had read a message")
    finally:
        turns.leave(worker)
        with trio.CancelScope(shield=True):
            if worker.session is not None:
                await worker.session.close()
            await frames.close()


class _Worker:
    """The calls of one worker."""

    def __init__(
        self,
        frames: FrameStream,
        store: MetadataStore,
        turns: Turns,
        hangs: Callable[[int], None],
    ) -> None:
        self.session: Session | None = None
        self.silent_times = 0
        """How many checks in a row have found that it had sent nothing."""
        self._hangs = hangs
        self._frames = frames
        self._store = store
        self._turns = turns
        self._threads = ThreadPool(1)
        self._calls: dict[str, Callable[[Frame], Awaitable[object]]] = {
            "read": self._read,
            "commit": self._commit,
            "watch": self._watch_commits,
            "begin_session": self._begin_session,
            "sessions": self._sessions,
            "hold_controller": self._hold_controller,
            "end": self._end_session,
            "upkeep": self._upkeep,
            "live": self._live,
            "close_session": self._close_session,
        }

    async def do(self, frame: Frame) -> None:
        """Do one call and answer it."""
        try:
            number, call = frame["id"], self._calls[frame["call"]]
            try:
                answer: Frame = {"id": number, "result": await call(frame)}
            except ERRORS as error:
                answer = {"id": number, "error": _error_fields(error)}
        except (LookupError, TypeError, ValueError) as error:
            raise FrameError(f"a call can't be read: {error!r}") from error
        await self._frames.send(encode_frame(answer))

    async def _event(self, frame: Frame, event: object, changes: str | None = None) -> None:
        await self._frames.send(encode_frame({"id": frame["id"], "event": event}, changes))

    async def _read(self, frame: Frame) -> int:
        image = await self._store.read()
        for chunk in await self._threads.run(_chunks, image):
            await self._event(frame, None, chunk)
        return image.revision

    async def _commit(self, frame: Frame) -> int:
        guard = None if frame["guard"] is None else Guard(*frame["guard"])
        changes = await self._threads.run(from_items, frame["changes"])
        revision = frame["revision"]
        return await self._turns.commit(self, lambda: self._store.commit(revision, changes, guard))

    async def _watch_commits(self, frame: Frame) -> None:
        async with aclosing(self._store.watch(frame["revision"])) as commits:
            async for commit in commits:
                await self._event(frame, commit.revision, to_json(commit.changes))

    async def _begin_session(self, frame: Frame) -> None:
        node_id, incarnation, locks = frame["member"]
        if self.session is not None:
            await self.session.close()
        member = Member(node_id, incarnation, tuple(locks))
        session = self.session = await self._store.begin_session(member, frame["ttl_ms"])
        await self._event(frame, session.guard)
        async with trio.open_nursery() as nursery, aclosing(self._store.sessions()) as changes:
            nursery.start_soon(self._watch_life, frame["ttl_ms"])
            async for _ in changes:
                if session.is_over:
                    break
            nursery.cancel_scope.cancel()

    async def _watch_life(self, ttl_ms: int) -> None:
        """Wait until the worker hangs, and report that.

        This counts checks and measures no time: while this process itself is stopped, it reads
        nothing, and that counts as one check.
        """
        self.silent_times = 0
        while self.silent_times < SIGNS_OF_LIFE:
            await trio.sleep(ttl_ms / 1000 / SIGNS_OF_LIFE)
            self.silent_times += 1
        self._hangs(ttl_ms)

    async def _live(self, frame: Frame) -> None:
        """Do nothing: a sign of life counts by its arrival alone."""

    async def _sessions(self, frame: Frame) -> None:
        async with aclosing(self._store.sessions()) as found:
            async for members, controller in found:
                await self._event(frame, [list(members.values()), controller])

    async def _hold_controller(self, frame: Frame) -> Guard | None:
        if self.session is None:
            raise GuardFailed
        return await self._store.hold_controller(self.session)

    async def _end_session(self, frame: Frame) -> None:
        await self._store.end(Guard(*frame["guard"]))

    async def _upkeep(self, frame: Frame) -> None:
        # The store tidies itself when it needs no image; the supervisor has none.
        await self._store.upkeep(await self._store.read(), Guard(*frame["guard"]))

    async def _close_session(self, frame: Frame) -> None:
        if self.session is not None:
            await self.session.close()


def _error_fields(error: Exception) -> list[object]:
    """An error as it is sent: its type, Kafka's code, the text."""
    if isinstance(error, KafkaError):
        return ["KafkaError", int(error.code), error.message]
    return [type(error).__name__, 0, str(error)]


def _chunks(image: MetadataImage) -> list[str]:
    """An image as changes, in JSON, a few in each text."""
    texts, pending, size_bytes = [], [], 0
    for change in snapshot(image):
        text = to_json([change])[1:-1]
        pending.append(text)
        size_bytes += len(text)
        if size_bytes >= CHUNK_BYTES:
            texts.append(f"[{', '.join(pending)}]")
            pending, size_bytes = [], 0
    return [*texts, f"[{', '.join(pending)}]"]
