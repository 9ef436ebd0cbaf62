"""A refused connection proves that a process is dead; nothing else does."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from kwire.broker.failure_detector import BETWEEN_S, PAUSE_S, FailureDetector, Watched, is_refusal
from kwire.metadata.store import Guard

SESSION = Guard("live/2", 7)
BROKER = Watched(2, "2a", ("b2", 9092), SESSION)


class Store:
    """Notes whose sessions are ended."""

    def __init__(self) -> None:
        self.ended: list[Guard] = []

    async def end(self, guard: Guard) -> None:
        """End a session."""
        self.ended.append(guard)


class Address:
    """What is at an address: ``answers`` opens a stream, refuses, or doesn't answer."""

    def __init__(self) -> None:
        self.connections: list[trio.abc.Stream] = []
        self.answer: Callable[[], object] = self.accept
        self.tries = 0

    def accept(self) -> trio.abc.Stream:
        """A process listens."""
        ours, theirs = trio.testing.memory_stream_pair()
        self.connections.append(theirs)
        return ours

    def refuse(self) -> trio.abc.Stream:
        """The machine is there, but no process; trio says it in this way."""
        each = ExceptionGroup("", [ConnectionRefusedError(111, "x"), ConnectionRefusedError()])
        raise OSError("all attempts to connect failed") from each

    def is_unreachable(self) -> trio.abc.Stream:
        """A router says that the machine is away."""
        raise OSError(113, "no route to host")

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """Connect."""
        assert (host, port) == ("b2", 9092)
        self.tries += 1
        await trio.lowlevel.checkpoint()
        if self.answer == self.silent:
            await trio.sleep_forever()
        return self.answer()

    def silent(self) -> None:
        """No packet comes back."""

    async def die(self) -> None:
        """The process dies."""
        self.answer = self.refuse
        await self.connections[-1].aclose()


@pytest.fixture
async def watching(nursery):
    """Proofs that watch a broker at an address, to which the connection is open."""
    store, address, told = Store(), Address(), []
    detector = FailureDetector(store, address.open, lambda: told.append(trio.current_time()))
    nursery.start_soon(detector.run)
    await trio.testing.wait_all_tasks_blocked()
    detector.watch({2: BROKER}, [2])
    await trio.testing.wait_all_tasks_blocked()
    return detector, store, address, told


async def _pass_s(seconds: float) -> None:
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def test_a_process_that_dies_is_known_at_once(watching, autojump_clock) -> None:
    """Its own session is ended, and whoever watches is told."""
    detector, store, address, told = watching
    began_s = trio.current_time()
    await address.die()
    await _pass_s(0.2)
    assert store.ended == [SESSION]
    assert detector.dead == {(2, "2a")}
    assert told == [began_s + BETWEEN_S]


@pytest.mark.parametrize("what", ["accept", "silent", "is_unreachable"])
async def test_the_end_of_a_connection_proves_nothing(watching, what, autojump_clock) -> None:
    """The process may live, or its machine may be lost: its session decides."""
    detector, store, address, _ = watching
    address.answer = getattr(address, what)
    await address.connections[-1].aclose()
    await _pass_s(30)
    assert store.ended == []
    assert not detector.dead
    assert address.tries < 70  # and nobody is bothered


async def test_an_address_that_never_took_a_connection_proves_nothing(nursery, autojump_clock):
    """It may be an address that this broker can't reach."""
    store, address = Store(), Address()
    address.answer = address.refuse
    detector = FailureDetector(store, address.open, lambda: None)
    nursery.start_soon(detector.run)
    await trio.testing.wait_all_tasks_blocked()
    detector.watch({2: BROKER}, [2])
    await _pass_s(10)
    assert not store.ended
    detector.watch(
        {2: BROKER._replace(session=None)}, [2]
    )  # its session is over, as the store says
    await _pass_s(PAUSE_S)
    assert detector.dead == {(2, "2a")}
    assert not store.ended


async def test_one_refusal_is_not_enough(watching, autojump_clock) -> None:
    """A process that is restarted listens again a moment later."""
    store, address = watching[1:3]
    await address.die()
    await _pass_s(BETWEEN_S / 2)
    address.answer = address.accept
    await _pass_s(PAUSE_S * 2)
    assert not store.ended
    await address.die()
    await _pass_s(PAUSE_S)
    assert store.ended == [SESSION]


async def test_another_process_is_watched_anew(watching, autojump_clock) -> None:
    """The proof about the old one is forgotten, and its watch ended."""
    detector, store, address, _ = watching
    newer = BROKER._replace(incarnation="2b", session=Guard("live/2", 9))
    detector.watch({2: newer}, [2])
    await _pass_s(0.1)
    await address.connections[0].aclose()
    assert not store.ended
    await address.die()
    await _pass_s(0.2)
    assert store.ended == [newer.session]
    assert detector.dead == {(2, "2b")}
    detector.watch({}, ())
    assert not detector.dead


def test_each_address_of_a_host_has_to_refuse() -> None:
    """A host may have several; one that doesn't answer may have the process."""
    refused, silent = ConnectionRefusedError(), TimeoutError()
    assert is_refusal(refused)
    assert not is_refusal(silent)
    assert not is_refusal(ExceptionGroup("", [refused, silent]))


async def test_a_process_that_was_wrongly_proven_dead_is_watched_again(
    watching, autojump_clock
) -> None:
    """It registers again as the same process, and then it dies."""
    detector, store, address, _ = watching
    await address.die()
    await _pass_s(0.2)
    detector.watch({2: BROKER}, [2])  # the store doesn't show yet that the session has ended
    detector.watch({2: BROKER._replace(session=None)}, [2])
    assert detector.dead == {(2, "2a")}
    address.answer = address.accept
    again = BROKER._replace(session=Guard("live/2", 9))
    detector.watch({2: again}, [2])
    assert not detector.dead
    await _pass_s(0.2)
    await address.die()
    await _pass_s(0.2)
    assert store.ended == [SESSION, again.session]
    assert detector.dead == {(2, "2a")}


async def test_a_dying_process_that_still_takes_connections_is_known_soon(
    watching, autojump_clock
) -> None:
    """Its listener may be closed a moment after the connection; that cost a second once."""
    detector, store, address, told = watching
    began_s = trio.current_time()
    await address.connections[-1].aclose()
    await trio.testing.wait_all_tasks_blocked()
    await address.die()
    await _pass_s(0.5)
    assert store.ended == [SESSION]
    assert detector.dead == {(2, "2a")}
    assert told[0] - began_s < 0.25


async def test_who_proves_no_death_is_told_of_the_end_of_a_connection(
    watching, autojump_clock
) -> None:
    """The controller proves deaths; others only suspect, and hear of it when there is no reason."""
    detector, store, address, _ = watching
    heard = []
    detector.on_heard = lambda *what: heard.append(what)
    detector.watch({2: BROKER}, ())
    await _pass_s(1)
    assert detector.connected == {2}
    assert heard == [(2, True)]
    await address.connections[-1].aclose()
    await _pass_s(1)
    assert heard[1:] == [(2, False), (2, True)]
    await address.die()
    await _pass_s(5)
    assert heard[3:] == [(2, False)]
    assert not detector.connected
    assert not store.ended


async def test_a_new_controller_proves_a_death_that_it_has_seen_before(
    watching, autojump_clock
) -> None:
    """Two brokers may die, the controller last: its successor waits for no session's end."""
    detector, store, address, _ = watching
    detector.watch({2: BROKER}, ())
    await _pass_s(1)
    await address.die()
    await _pass_s(PAUSE_S / 2)
    assert not store.ended
    detector.watch({2: BROKER}, [2])
    await _pass_s(2 * BETWEEN_S)
    assert store.ended == [SESSION]
