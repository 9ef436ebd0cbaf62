"""Who is next: usually the connection that has used least, and now and then the oldest."""

import gc

import trio

from kwire.budget.fair_queue import OLDEST_EVERY, FairQueue, Ticket
from kwire.budget.large import LargeRequests
from kwire.budget.work import SLICE_S, Turns, Work
from tests.support.clock import HandClock


def a_work(turns: Turns, used_s: float = 0) -> Work:
    """The work of a connection that has used so much."""
    work = Work(turns, lambda: False)
    work.used_s = used_s
    return work


def test_the_least_used_are_first_and_every_eighth_turn_is_the_oldest() -> None:
    """New connections delay a busy one, but not for ever."""
    order: FairQueue[Ticket] = FairQueue()
    busy = Ticket()
    order.add(10**9, busy)
    called: list[Ticket] = []
    for _ in range(OLDEST_EVERY):
        order.add(0, Ticket())
        ticket = order.first()
        assert ticket is not None
        order.call(ticket)
        called.append(ticket)
    assert called.index(busy) == OLDEST_EVERY - 1


def test_tickets_that_wait_no_more_are_forgotten() -> None:
    """However long others wait, the order holds no more than about twice as many tickets."""
    order: FairQueue[Ticket] = FairQueue()
    for number in range(100):
        order.add(number, Ticket())
    for number in range(10_000):
        order.add(1000 + number, Ticket())
        ticket = order.first()
        assert ticket is not None
        order.call(ticket)
    assert len(list(order)) == 100
    assert sum(isinstance(one, Ticket) for one in gc.get_objects()) < 400
    for ticket in order:
        ticket.has_left = True
    assert order.first() is None


async def test_a_busy_client_gets_its_slice_beside_new_connections() -> None:
    """Clients that connect anew for each request don't keep a busy one waiting for ever."""
    clock = HandClock()
    turns = Turns(clock)
    served = []

    async def connect_anew() -> None:
        while "busy" not in served and len(served) < 100:
            work = a_work(turns)
            for _ in range(3):
                work.resume()
                clock.pass_time(2 * SLICE_S)
                await work.next_slice()
            served.append("new")

    async def busy() -> None:
        await a_work(turns, 10**9).next_slice()
        served.append("busy")

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(connect_anew)
        nursery.start_soon(busy)
    assert served.index("busy") < 50


async def test_a_busy_client_enters_beside_new_connections() -> None:
    """The same holds for requests that hold much memory."""
    turns = Turns()
    large: LargeRequests = turns.large
    large.max_bytes = lambda: 4000
    entered = []

    async def connect_anew() -> None:
        while "busy" not in entered and len(entered) < 100:
            work = a_work(turns)
            work.hold(900)
            await large.wait(work)
            entered.append("new")
            await trio.lowlevel.checkpoint()
            work.release()

    async def busy() -> None:
        work = a_work(turns, 10**9)
        work.hold(900)
        await large.wait(work)
        entered.append("busy")
        work.release()

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(connect_anew)
        nursery.start_soon(busy)
    assert entered.index("busy") < 50
    assert large.held_bytes == 0
