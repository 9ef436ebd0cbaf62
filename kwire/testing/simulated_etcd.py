"""An etcd in memory, with faults, in virtual time; kwire's own etcd store runs on it.

Rules:

- It understands the requests that kwire's store sends to etcd's JSON gateway.
- Chance comes from ``random`` alone, and time from trio's clock. So a run with a seed and trio's
  MockClock repeats itself.
- A fault is a field of ``faults``, which a test changes at any time.
"""

from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.etcd.gateway import CALL_S, UNAVAILABLE, Answered, EtcdError, Unreachable
from kwire.metadata.etcd.transactions import Json
from kwire.testing.simulated_keys import Item, Keyspace

ATTEMPT_S = 1.0
"""How long a caller waits for an answer that was lost."""

LEAST_TTL_S = 2
RESOURCE_EXHAUSTED = 8
"""gRPC's code for an etcd whose database has reached its quota."""

OUTAGE_LOOK_S = 0.1
"""How often to check whether an outage is over."""

_T = TypeVar("_T")


class Faults:
    """The faults from now on."""

    def __init__(self) -> None:
        self.lost_calls = 0.0
        """The chance that a call doesn't arrive."""
        self.lost_answers = 0.0
        """The chance that a call is done, but its answer is lost."""
        self.is_down = False
        """Whether no caller gets an answer, and no watch a message. No lease ends meanwhile.
        Afterwards all leases begin anew, as when etcd elects a new leader."""
        self.is_full = False
        """Whether every transaction that would write is refused, as by an etcd over its quota."""
        self.lease_factor = 1.0
        """Leases end after this many times their time to live."""
        self.delay_s = 0.0
        """The longest time that a call, an answer or a message of a watch takes."""


class SimulatedEtcd:
    """One etcd; ``run`` has to run. ``gateway`` gives each broker its own gateway."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.faults = Faults()
        self._keys = Keyspace()
        self._leases: dict[str, tuple[int, float]] = {}
        self._last_lease = 0
        self._leases_changed = trio.Event()
        self._watches: list[tuple[Sequence[Json], trio.MemorySendChannel[Json], Gate]] = []
        self._was_down = False

    def gateway(self) -> "SimulatedGateway":
        """The gateway of one broker to this etcd."""
        return SimulatedGateway(self)

    @property
    def keys(self) -> list[str]:
        """The names of all keys."""
        return sorted(key.decode() for key in self._keys.items)

    async def run(self) -> None:
        """End leases that are over, forever."""
        while True:
            self.end_leases()
            deadlines = [kept_s + self._length_s(ttl_s) for ttl_s, kept_s in self._leases.values()]
            if self.faults.is_down:
                deadlines = [trio.current_time() + OUTAGE_LOOK_S]
            changed = self._leases_changed = trio.Event()
            with trio.move_on_at(min(deadlines, default=float("inf"))):
                await changed.wait()

    def item(self, key: str) -> Item | None:
        """The item of a key; None if there is no such key."""
        return self._keys.items.get(key.encode())

    def end_leases(self) -> None:
        """End the leases that got no keepalive for too long, and delete their keys."""
        now_s = trio.current_time()
        if self.faults.is_down:
            self._was_down = True
            return
        if self._was_down:
            self._was_down = False
            self._leases = {lease: (ttl_s, now_s) for lease, (ttl_s, _) in self._leases.items()}
        for lease, (ttl_s, kept_s) in list(self._leases.items()):
            if now_s >= kept_s + self._length_s(ttl_s):
                self.revoke(lease)

    def revoke(self, lease: str) -> None:
        """End a lease, and delete its keys."""
        if self._leases.pop(lease, None) is None:
            raise EtcdError(5, "etcdserver: requested lease not found")
        self._publish(self._keys.delete_lease(lease))

    def revoke_all(self) -> None:
        """End every lease, like an etcd that has lost its memory of keepalives."""
        for lease in list(self._leases):
            self.revoke(lease)

    def do(self, path: str, body: Json) -> Json:
        """The answer to a call; EtcdError."""
        self.end_leases()
        answer: Json
        match path:
            case "kv/txn":
                if self.faults.is_full and any("request_put" in one for one in body["success"]):
                    raise EtcdError(RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
                answer, events = self._keys.transact(body, self._leases)
                self._publish(events)
            case "lease/grant":
                self._last_lease += 1
                lease, ttl_s = str(self._last_lease), max(int(body["TTL"]), LEAST_TTL_S)
                self._leases[lease] = ttl_s, trio.current_time()
                self._leases_changed.set()
                answer = {"ID": lease, "TTL": str(ttl_s)}
            case "lease/keepalive":
                return {"result": self._with_header(self._keep(body["ID"]))}
            case "lease/revoke":
                self.revoke(body["ID"])
                answer = {}
            case _:
                answer = {}
        return self._with_header(answer)

    def watch(self, messages: Sequence[Json], gate: "Gate") -> trio.MemoryReceiveChannel[Json]:
        """Begin a watch; its messages come through the channel."""
        send, receive = trio.open_memory_channel[Json](1 << 20)
        for message in messages:
            send.send_nowait({**self._with_header({}), "created": True, "of": message})
        self._watches.append(([message["create_request"] for message in messages], send, gate))
        return receive

    def _keep(self, lease: str) -> Json:
        if lease not in self._leases:
            return {"ID": lease}
        ttl_s, _ = self._leases[lease]
        self._leases[lease] = ttl_s, trio.current_time()
        return {"ID": lease, "TTL": str(ttl_s)}

    def _length_s(self, ttl_s: int) -> float:
        return ttl_s * self.faults.lease_factor

    def _with_header(self, answer: Json) -> Json:
        return {"header": {"revision": str(self._keys.revision)}, **answer}

    def _publish(self, events: Sequence[Json]) -> None:
        for ranges, send, gate in self._watches:
            seen = [event for event in events if any(_covers(range_, event) for range_ in ranges)]
            if seen and not gate.is_silent and not self.faults.is_down:
                try:
                    send.send_nowait({**self._with_header({}), "events": seen})
                except trio.BrokenResourceError:
                    gate.is_silent = True  # the watcher is gone


class Gate:
    """Whether a watch is silent without having ended."""

    def __init__(self) -> None:
        self.is_silent = False


class SimulatedGateway:
    """One broker's gateway to the simulated etcd; ``is_cut`` cuts it, ``silence`` its watch.

    ``hold`` keeps all calls and answers on their way until ``release``.
    """

    def __init__(self, etcd: SimulatedEtcd) -> None:
        self.is_cut = False
        self._passes = trio.Event()
        self._passes.set()
        self._etcd = etcd
        self._gate = Gate()

    def silence(self) -> None:
        """Make the watch silent, like a connection that died unnoticed."""
        self._gate.is_silent = True

    def hold(self) -> None:
        """Hold back calls and answers, until ``release``."""
        if self._passes.is_set():
            self._passes = trio.Event()

    def release(self) -> None:
        """Deliver the calls and answers that were held back."""
        self._passes.set()

    async def _travel(self) -> None:
        await trio.sleep(self._etcd.random.random() * self._etcd.faults.delay_s)
        await self._passes.wait()

    async def call(self, path: str, body: Json, within_s: float = CALL_S) -> Answered:
        """The answer to a call; Unreachable, EtcdError."""
        deadline = trio.current_time() + within_s
        may_be_done = False
        while True:
            faults, random = self._etcd.faults, self._etcd.random
            await self._travel()
            arrives = not self._is_closed() and random.random() >= faults.lost_calls
            if arrives:
                answer = self._etcd.do(path, body)
                await self._travel()
                if not self._is_closed() and random.random() >= faults.lost_answers:
                    return Answered(answer, may_be_done)
            may_be_done = True
            if trio.current_time() + ATTEMPT_S >= deadline:
                await trio.sleep_until(deadline)
                raise Unreachable(["simulated:2379"], "no answer", may_be_done=may_be_done)
            await trio.sleep(ATTEMPT_S)

    @asynccontextmanager
    async def stream(
        self, path: str, messages: Sequence[Json]
    ) -> AsyncIterator[AsyncIterator[Json]]:
        """The messages of a watch; Unreachable."""
        await trio.sleep(self._etcd.random.random() * self._etcd.faults.delay_s)
        if self._is_closed():
            raise Unreachable(["simulated:2379"], "no answer", may_be_done=False)
        self._gate = Gate()
        with self._etcd.watch(messages, self._gate) as receive:
            yield self._delayed(receive)

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    def _is_closed(self) -> bool:
        return self.is_cut or self._etcd.faults.is_down

    async def _delayed(self, receive: trio.MemoryReceiveChannel[Json]) -> AsyncIterator[Json]:
        async for message in receive:
            await self._travel()
            if self.is_cut:
                raise EtcdError(UNAVAILABLE, "the connection is cut")
            yield message


class _NoThreads(ThreadPool):
    """Does work for threads at once: a thread would take real time, and virtual time would jump."""

    async def run(self, function: Callable[..., _T], *args: object, abandon: bool = False) -> _T:
        await trio.lowlevel.checkpoint()
        return function(*args)


def simulated_store(
    gateway: SimulatedGateway,
    writer: str,
    random: Random,
    keep_every_ms: int = 1000,
    steady_ms: Callable[[], int] | None = None,
    call_s: Callable[[], float] = lambda: CALL_S,
) -> EtcdStore:
    """The store of one broker on a simulated etcd; its steady clock is trio's by default."""
    return EtcdStore(
        gateway,
        "kwire",
        writer,
        random=random,
        steady_ms=steady_ms or (lambda: int(trio.current_time() * 1000)),
        keep_every_ms=keep_every_ms,
        threads=_NoThreads(1),
        call_s=call_s,
    )


def _covers(request: Json, event: dict[str, Any]) -> bool:
    """Whether a watch covers the key of an event."""
    key = b64decode(event["kv"]["key"])
    return bool(b64decode(request["key"]) <= key < b64decode(request["range_end"]))
