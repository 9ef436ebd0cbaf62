"""Refusal as proof: a broker whose address refuses connections is dead, whatever its lease says.

A process that dies closes its connections, and its machine then refuses new ones. So others learn
of the death in a tenth of a second, and need not wait until the session ends in the store.

Rules:

- Each broker holds a connection to each other one, or to the controller's alone where there are
  more than ``MOST_WATCHED``; the controller always watches all. Nothing is sent on it. A connection
  that ends proves nothing by itself. But the broker is suspected (``kwire.broker.suspects``).
- The controller proves the deaths of others, and the others prove the controller's.
- The proof is a connection that has ended, and an address that then refuses two connections, one
  shortly after the other. An address that doesn't answer, or that never took a connection, proves
  nothing: a lost machine or a frozen process is left to the end of its session.
- A broker without a session is proven dead by the two refusals alone.
- The proof is about one process: the incarnation that had registered with this address. Only its
  own session is ended, by the number of the key's creation.
- A wrong proof (a port forwarder that was restarted, perhaps) costs a registration, nothing else. A
  process that has a new session afterwards lives, and is watched again.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import trio

from kwire.client.peer import OpenStream
from kwire.errors import KafkaError
from kwire.metadata.store import Guard, MetadataStore

log = logging.getLogger(__name__)

REFUSALS = 2
BETWEEN_S = 0.05
"""The pause between two tries to connect that may prove a death."""

CONNECT_S = 1.0
FIRST_PAUSE_S = 0.05
PAUSE_S = 1.0
"""The first and the longest pause before a connection that has ended, or could not be opened, is
tried again. A process that dies may take connections for a moment after it has ended others."""

STEADY_S = 0.05
"""A connection that lasts so long is one to a process that lives."""

MOST_WATCHED = 64


class Watched(NamedTuple):
    """A process to watch: its node id, incarnation, address, and its session if it has one."""

    node_id: int
    incarnation: str
    address: tuple[str, int]
    session: Guard | None


class Proofs:
    """The watched processes of one broker; ``run`` has to run.

    ``tell`` is called for each that is proven dead. ``heard`` is called with the node id and False
    when a connection ends, and with True when there is one again.
    """

    def __init__(
        self, store: MetadataStore, open_stream: OpenStream, tell: Callable[[], object]
    ) -> None:
        self._ended: dict[tuple[int, str], Guard | None] = {}  # the session that a proof ended
        self._store = store
        self._open_stream = open_stream
        self._tell = tell
        self.connected: set[int] = set()
        """The brokers to which there is a connection: their node ids."""
        self.heard: Callable[[int, bool], object] = lambda _node_id, _is_there: None
        self._watching: dict[Watched, trio.CancelScope] = {}
        self._provable: Collection[int] = ()
        self._more_provable = trio.Event()
        self._nursery: trio.Nursery | None = None

    @property
    def dead(self) -> AbstractSet[tuple[int, str]]:
        """Those that are proven dead: (node id, incarnation)."""
        return self._ended.keys()

    async def run(self) -> None:
        """Watch, for ever."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def watch(self, wanted: Mapping[int, Watched], provable: Collection[int]) -> None:
        """Watch these processes from now on, and no others; prove the deaths of the provable."""
        if not set(provable) <= set(self._provable):
            self._more_provable.set()
            self._more_provable = trio.Event()
        self._provable = provable
        self._ended = {
            one: session
            for one, session in self._ended.items()
            if _stays_dead(wanted.get(one[0]), one[1], session)
        }
        for watched, scope in list(self._watching.items()):
            if wanted.get(watched.node_id) != watched:
                scope.cancel()
                del self._watching[watched]
        for watched in wanted.values():
            is_new = watched not in self._watching
            if is_new and (watched.node_id, watched.incarnation) not in self.dead and self._nursery:
                self._watching[watched] = scope = trio.CancelScope()
                self._nursery.start_soon(self._watch, watched, scope)

    async def _watch(self, watched: Watched, scope: trio.CancelScope) -> None:
        with scope:
            had_connection, pause_s = watched.session is None, FIRST_PAUSE_S
            while True:
                began_s = trio.current_time()
                stream = await self._connect(watched.address)
                if stream is not None:
                    had_connection = True
                    await self._wait_end(watched.node_id, stream)
                    if trio.current_time() - began_s > PAUSE_S:
                        pause_s = FIRST_PAUSE_S
                is_provable = had_connection and watched.node_id in self._provable
                if is_provable and await self._refuses(watched.address):
                    break
                with trio.move_on_after(pause_s):
                    await self._more_provable.wait()
                pause_s = min(2 * pause_s, PAUSE_S)
            await self._note_dead(watched)

    async def _wait_end(self, node_id: int, stream: trio.abc.Stream) -> None:
        """Wait until the other side has ended a connection."""
        self.connected.add(node_id)
        try:
            with trio.move_on_after(STEADY_S):
                await _read_to_end(stream)
                return
            self.heard(node_id, True)
            await _read_to_end(stream)
            self.heard(node_id, False)
        finally:
            self.connected.discard(node_id)
            await trio.aclose_forcefully(stream)

    async def _note_dead(self, watched: Watched) -> None:
        host, port = watched.address
        log.info("broker %d is gone: nobody listens at %s:%d any more", watched.node_id, host, port)
        self._ended[watched.node_id, watched.incarnation] = watched.session
        if watched.session is not None:
            try:
                await self._store.end(watched.session)
            except KafkaError as error:
                log.warning("the session of broker %d ends later: %s", watched.node_id, error)
        self._tell()

    async def _connect(self, address: tuple[str, int]) -> trio.abc.Stream | None:
        with trio.move_on_after(CONNECT_S):
            try:
                return await self._open_stream(*address)
            except OSError:
                return None
        return None

    async def _refuses(self, address: tuple[str, int]) -> bool:
        """Whether an address refuses connections, twice in a row."""
        for number in range(REFUSALS):
            if number:
                await trio.sleep(BETWEEN_S)
            with trio.move_on_after(CONNECT_S) as patience:
                try:
                    stream = await self._open_stream(*address)
                except OSError as error:
                    if not _is_refusal(error):
                        return False
                else:
                    await trio.aclose_forcefully(stream)
                    return False
            if patience.cancelled_caught:
                return False
        return True


def _stays_dead(wanted: Watched | None, incarnation: str, ended: Guard | None) -> bool:
    """Whether a process that was proven dead has no session but the one that the proof ended."""
    if wanted is None or wanted.incarnation != incarnation:
        return False
    return wanted.session is None or wanted.session == ended


async def _read_to_end(stream: trio.abc.Stream) -> None:
    """Read until the other side has ended a connection."""
    try:
        while await stream.receive_some(1):
            pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


def _is_refusal(error: BaseException) -> bool:
    """Whether each address of a host refuses; trio wraps their errors."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_refusal, error.exceptions))
    if isinstance(error, ConnectionRefusedError):
        return True
    return error.__cause__ is not None and _is_refusal(error.__cause__)
