"""Proofs that a broker is dead: its address refuses connections, although its lease still runs.

When a process dies, its connections close, and its machine then refuses new ones. So other brokers
learn of the death in a tenth of a second. They needn't wait until the broker's session ends in the
metadata store.

Rules:

- Each broker holds a connection to every other broker, and sends nothing on it. Where there are
  more than ``MOST_WATCHED`` brokers, only the controller watches all of them, and the others watch
  only the controller.
- The end of a connection proves nothing by itself, but makes the broker a suspect
  (``kwire.broker.suspects``).
- The controller proves the deaths of the other brokers. The others prove the death of the
  controller.
- The proof is a connection that has ended, and an address that then refuses two connections, one
  shortly after the other. An address that doesn't answer, or that never accepted a connection,
  proves nothing. So a lost machine or a frozen process counts as alive until its session ends.
- A broker without a session is proven dead by the two refusals alone.
- The proof is about one process: the incarnation that registered with this address. Only the
  session of this incarnation is ended: the number of its key's creation identifies it (``Guard``).
- A wrong proof, for example after the restart of a port forwarder, costs one registration and
  nothing else. A process that then has a new session counts as alive, and is watched again.
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
"""The pause between the two tries to connect that may prove a death."""

CONNECT_S = 1.0
FIRST_PAUSE_S = 0.05
PAUSE_S = 1.0
"""The first and the longest pause before another try to connect. There is a first pause because a
process that dies may accept connections for a moment after it has closed others."""

STEADY_S = 0.05
"""A connection that lasts so long leads to a process that is alive."""

MOST_WATCHED = 64


class Watched(NamedTuple):
    """A process to watch: its node id, incarnation, address, and its session if it has one."""

    node_id: int
    incarnation: str
    address: tuple[str, int]
    session: Guard | None


class Proofs:
    """The watched processes of one broker; ``run`` has to run.

    ``tell`` is called for each process that is proven dead. ``heard`` is called with the node id
    and False when a connection ends, and with the node id and True when a new one is open.
    """

    def __init__(
        self, store: MetadataStore, open_stream: OpenStream, tell: Callable[[], object]
    ) -> None:
        self._ended: dict[tuple[int, str], Guard | None] = {}  # the session that a proof ended
        self._store = store
        self._open_stream = open_stream
        self._tell = tell
        self.connected: set[int] = set()
        """The node ids of the brokers to which a connection is open."""
        self.heard: Callable[[int, bool], object] = lambda _node_id, _is_there: None
        self._watching: dict[Watched, trio.CancelScope] = {}
        self._provable: Collection[int] = ()
        self._more_provable = trio.Event()
        self._nursery: trio.Nursery | None = None

    @property
    def dead(self) -> AbstractSet[tuple[int, str]]:
        """The processes that are proven dead: (node id, incarnation)."""
        return self._ended.keys()

    async def run(self) -> None:
        """Watch, forever."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()

    def watch(self, wanted: Mapping[int, Watched], provable: Collection[int]) -> None:
        """Watch exactly these processes from now on; prove only deaths of ``provable`` nodes."""
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
                    if not is_refusal(error):
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


def is_refusal(error: BaseException) -> bool:
    """Whether each address of a host refuses; trio wraps their errors."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_refusal, error.exceptions))
    if isinstance(error, ConnectionRefusedError):
        return True
    return error.__cause__ is not None and is_refusal(error.__cause__)
