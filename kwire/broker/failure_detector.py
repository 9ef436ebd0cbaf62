"""Detects failures of other brokers: suspects at first, then proofs that a process is dead.

When a process dies, its connections close, and its machine then refuses new ones. So other brokers
learn of the death in a tenth of a second. They needn't wait until the broker's session ends in the
metadata store.

Rules of proofs (``FailureDetector``):

- Each broker holds a connection to every other broker, and sends nothing on it. Where there are
  more than ``MOST_WATCHED`` brokers, only the controller watches all of them, and the others watch
  only the controller.
- The end of a connection proves nothing by itself, but makes the broker a suspect.
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

A client whose leader dies asks for Metadata at once, before another leader is elected. The answer
would name the dead leader, and many clients ask again only a second later. So the answer to such a
request waits a moment for the election.

Rules of suspects (``SuspectedBrokers``):

- This broker suspects another one when a connection breaks on which it fetches from the other, or
  on which it watches whether the other lives (``FailureDetector``). If no partition
  has followers, no broker fetches, and no broker is ever suspected.
- An answer waits until the suspected broker is fenced, because that elects other leaders, or until
  the suspected broker answers a fetch again. An answer waits at most until ``PATIENCE_S`` after the
  connection broke. Further failures of the same registration begin no other wait. No answer waits
  for a broker that stops in order, because it hands over its partitions before its connections end.
- If a partition has followers, each answer waits ``NOTICE_S`` first: a client may notice the death
  of a broker before this broker does.
- The next image of the metadata wakes the answers that wait. A wait needs no task.
- Answers contain a broker for ``REMEMBERED_S`` after it was fenced, if this process was connected
  with it. librdkafka 2.16 loses a partition for a second if one answer moves the partition away
  from a broker and no longer contains that broker. Kafka's answers contain a dead broker for
  longer, until its session ends. A process that has just started remembers nobody: if a whole
  cluster moves to other addresses, its answers contain only new ones.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import trio

from kwire.client.peer import OpenStream
from kwire.errors import KafkaError
from kwire.metadata.image import MetadataImage
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

PATIENCE_S = 0.4
"""An election after a death takes 0.1 to 0.3 s."""

NOTICE_S = 0.005
"""A client may ask a moment before this broker notices that its own connection has broken, too."""

REMEMBERED_S = 1.5
"""librdkafka looks for leaders at least once a second, while it lacks one."""


class Watched(NamedTuple):
    """A process to watch: its node id, incarnation, address, and its session if it has one."""

    node_id: int
    incarnation: str
    address: tuple[str, int]
    session: Guard | None


class FailureDetector:
    """The watched processes of one broker; ``run`` has to run.

    ``on_dead`` is called for each process that is proven dead. ``on_heard`` is called with the node
    id and False when a connection ends, and with the node id and True when a new one is open.
    """

    def __init__(
        self, store: MetadataStore, open_stream: OpenStream, on_dead: Callable[[], object]
    ) -> None:
        self._ended: dict[tuple[int, str], Guard | None] = {}  # the session that a proof ended
        self._store = store
        self._open_stream = open_stream
        self._on_dead = on_dead
        self.connected: set[int] = set()
        """The node ids of the brokers to which a connection is open."""
        self.on_heard: Callable[[int, bool], object] = lambda _node_id, _is_there: None
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
                self._nursery.start_soon(self._watch_process, watched, scope)

    async def _watch_process(self, watched: Watched, scope: trio.CancelScope) -> None:
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
            await self._record_death(watched)

    async def _wait_end(self, node_id: int, stream: trio.abc.Stream) -> None:
        """Wait until the other side has ended a connection."""
        self.connected.add(node_id)
        try:
            with trio.move_on_after(STEADY_S):
                await _read_to_end(stream)
                return
            self.on_heard(node_id, True)
            await _read_to_end(stream)
            self.on_heard(node_id, False)
        finally:
            self.connected.discard(node_id)
            await trio.aclose_forcefully(stream)

    async def _record_death(self, watched: Watched) -> None:
        host, port = watched.address
        log.info("broker %d is gone: nobody listens at %s:%d any more", watched.node_id, host, port)
        self._ended[watched.node_id, watched.incarnation] = watched.session
        if watched.session is not None:
            try:
                await self._store.end(watched.session)
            except KafkaError as error:
                log.warning("the session of broker %d ends later: %s", watched.node_id, error)
        self._on_dead()

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


class Waiter(Protocol):
    """Waits for an election; a handler's ``Change`` is one."""

    def set(self) -> None:
        """Wake up."""


class SuspectedBrokers:
    """The brokers that one broker suspects; ``waiters`` are woken when that may have changed."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self._lost: dict[int, tuple[int, float]] = {}  # broker epoch, end of the wait
        self._met: set[int] = set()
        self._fenced_s: dict[int, float] = {}

    def record_connected(self, connected: Iterable[int], image: MetadataImage) -> None:
        """Remember the brokers with which this process is connected: their node ids."""
        known = image.brokers
        self._met.update(n for n in connected if n in known and not known[n].is_fenced)

    def connection_lost(self, node_id: int, image: MetadataImage) -> None:
        """The connection to a broker has broken, or can't be opened: suspect it."""
        registered = image.brokers.get(node_id)
        if registered is None:
            self._lost.pop(node_id, None)
        elif self._lost.get(node_id, (-1, 0.0))[0] != registered.epoch:
            self._lost[node_id] = registered.epoch, trio.current_time() + PATIENCE_S

    def has_answered(self, node_id: int) -> None:
        """A broker lives: suspect it no longer."""
        if self._lost.pop(node_id, None) is not None:
            self.wake_waiters()

    def apply_image(self, image: MetadataImage) -> None:
        """Remember which brokers are fenced, and wake the answers that wait for this image."""
        known = image.brokers
        fenced = {node for node in self._met if node in known and known[node].is_fenced}
        self._met -= fenced
        self._fenced_s |= dict.fromkeys(fenced, trio.current_time())
        self.wake_waiters()

    def fenced_lately(self) -> set[int]:
        """The brokers that were fenced just now: their node ids."""
        since_s = trio.current_time() - REMEMBERED_S
        self._fenced_s = {node: at_s for node, at_s in self._fenced_s.items() if at_s > since_s}
        return set(self._fenced_s)

    def wake_waiters(self) -> None:
        """Wake the answers that wait."""
        for waiter in list(self.waiters):
            waiter.set()

    def wait_until_s(self, image: MetadataImage, notice_s: float) -> float | None:
        """Until when to wait for an election, by trio's clock; None if no election is expected.

        The time is at least ``notice_s``: until then, this broker may still notice a death.
        """
        now_s = trio.current_time()
        until_s = notice_s if now_s < notice_s else None
        for node_id, (epoch, end_s) in self._lost.items():
            registered = image.brokers.get(node_id)
            is_here = registered is not None and registered.epoch == epoch
            if is_here and image.brokers[node_id].is_active and now_s < end_s:
                until_s = max(end_s, until_s or 0.0)
        return until_s
