"""Work in slices: who has a slice when, and what a request may cost before it waits."""

import pytest
import trio
import trio.testing

from kwire.budget.work import (
    CREDIT_UNITS,
    FIRST_UNITS,
    MOST_PAYERS,
    PASS_UNITS,
    SLICE_UNITS,
    AnswerTooLarge,
    ClientGone,
    Turns,
    Work,
)


def a_work(turns, **options):
    work = Work(turns, lambda: False, **options)
    work.begin_request(0)
    return work


async def test_what_fits_into_a_slice_waits_for_nothing():
    """A small request is served at once."""
    work = a_work(Turns())
    assert not work.spend(FIRST_UNITS)
    assert not work.is_large


async def test_what_does_not_fit_into_a_slice_waits_for_the_next():
    """A request that has used up its slice has a new one after the event loop has turned."""
    work = a_work(Turns())
    assert work.spend(FIRST_UNITS + 1)
    await work.next_slice()
    assert work.is_large
    assert not work.spend(SLICE_UNITS - 1)
    assert work.spend(1)


async def test_what_a_piece_costs_beyond_its_slice_is_paid_with_the_next():
    """Otherwise each pass would do a large piece of work, and a slice of others behind it."""
    work = a_work(Turns())
    work.spend(FIRST_UNITS + SLICE_UNITS - 10)
    await work.next_slice()
    assert not work.spend(10)
    assert work.spend(1)


def begun_as(turns, payer):
    """What a new connection of this payer has used, and changed."""
    work = a_work(turns)
    turns.begin_as(work, payer)
    return turns.rank(work.used_units), work.changes


def test_a_host_that_connects_anew_goes_on_where_it_was():
    """Who reconnects for each request isn't always ahead of the others."""
    turns = Turns()
    turns.floor = 10 * CREDIT_UNITS
    assert begun_as(turns, "attacker") == (9 * CREDIT_UNITS, 0)
    turns.leave("attacker", 10 * CREDIT_UNITS - 5)
    turns.leave("attacker", 5, 7)
    assert begun_as(turns, "attacker") == (10 * CREDIT_UNITS - 5, 7)
    assert begun_as(turns, "neighbor") == (9 * CREDIT_UNITS, 0)


def test_what_hosts_have_used_is_bounded():
    """The hosts whose connections ended last are known."""
    turns = Turns()
    for n in range(MOST_PAYERS + 10):
        turns.leave(f"host-{n}", n)
    assert begun_as(turns, "host-9") == (0, 0)
    assert begun_as(turns, f"host-{MOST_PAYERS + 9}") == (MOST_PAYERS + 9, 0)


def test_all_connections_share_one_pass():
    """However many connections do work at once, one pass of the loop has a bound."""
    turns = Turns()
    done = 0
    for _ in range(100):
        work = a_work(turns)
        while not work.spend(100):
            done += 100
    assert 0 < done <= PASS_UNITS
    turns.begin_pass()
    assert not a_work(turns).spend(100)


async def test_one_slice_is_done_in_each_pass_of_the_loop():
    """Between two slices everybody else has a turn; trio shuffles who goes first in a pass."""
    turns = Turns()
    order = []

    async def client(name):
        work = a_work(turns)
        for _ in range(3):
            work.spend(SLICE_UNITS)
            await work.next_slice()
            order.append(name)

    async def others():
        while len(order) - order.count("-") < 6:
            order.append("-")
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        nursery.start_soon(client, "a")
        nursery.start_soon(client, "b")
    slices = "".join(order).replace("-", " ").split()
    assert all(len(together) <= 2 for together in slices)


async def test_who_has_used_least_is_served_first():
    """A client with one request does not wait for a client with a thousand."""
    turns = Turns()
    served = []

    async def client(work, name):
        await work.next_slice()
        served.append(name)

    heavy = [a_work(turns) for _ in range(50)]
    for work in heavy:
        work.used_units = 100 * SLICE_UNITS
    async with trio.open_nursery() as nursery:
        for work in heavy:
            nursery.start_soon(client, work, "heavy")
        await trio.testing.wait_all_tasks_blocked(0)
        nursery.start_soon(client, a_work(turns), "light")
    assert served.index("light") <= 50
    assert len(served) == 51


async def test_a_quiet_client_is_first_among_busy_ones():
    """The queue is ordered by use, and the quiet client's use is the least."""
    turns = Turns()
    served = []
    gate = trio.Event()

    async def busy(work):
        await gate.wait()
        for _ in range(20):
            work.spend(SLICE_UNITS)
            await work.next_slice()
            served.append("busy")

    async def quiet():
        await gate.wait()
        while served.count("busy") < 500:
            await trio.lowlevel.checkpoint()
        work = a_work(turns)
        before = len(served)
        work.spend(SLICE_UNITS + 1)
        await work.next_slice()
        served.append("quiet")
        assert len(served) - before <= 4

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(busy, a_work(turns))
        nursery.start_soon(quiet)
        await trio.testing.wait_all_tasks_blocked(0)
        gate.set()
    assert served.count("busy") == 50 * 20


async def test_having_been_quiet_is_worth_a_small_credit():
    """A connection that comes back does not hold up all others until it has caught up."""
    turns = Turns()
    busy = a_work(turns)
    busy.used_units = 1000 * SLICE_UNITS
    await busy.next_slice()
    back = a_work(turns)
    await back.next_slice()
    assert back.used_units == busy.used_units - CREDIT_UNITS


async def test_a_client_that_is_gone_is_not_worked_for():
    """The next slice of a request whose connection has ended is an exception."""
    work = Work(Turns(), lambda: True)
    with pytest.raises(ClientGone):
        await work.next_slice()


@pytest.mark.parametrize("cancelled", range(4))
async def test_who_is_cancelled_leaves_the_queue(cancelled):
    """Whoever of those that wait is cancelled, the others have their slices."""
    turns = Turns()
    scopes = [trio.CancelScope() for _ in range(4)]
    served = []

    async def client(index):
        with scopes[index]:
            work = a_work(turns)
            await work.next_slice()
            served.append(index)

    async with trio.open_nursery() as nursery:
        for index in range(4):
            nursery.start_soon(client, index)
        await trio.lowlevel.checkpoint()
        scopes[cancelled].cancel()
    assert set(served) >= set(range(4)) - {cancelled}
    with trio.fail_after(5):
        await a_work(turns).next_slice()


def test_an_answer_has_a_limit():
    """The bytes of a response are counted before they are made; the next request starts anew."""
    work = a_work(Turns(), max_answer_bytes=100)
    work.answer(60)
    with pytest.raises(AnswerTooLarge, match=r"kwire\.response\.max\.bytes=100"):
        work.answer(41)
    work.begin_request(1)
    work.answer(100)


async def test_a_stop_gives_up_requests_that_need_another_slice():
    """Those that wait for a slice, and those that ask later."""
    turns = Turns()
    given_up = []

    async def client(work):
        try:
            while True:
                work.spend(SLICE_UNITS)
                await work.next_slice()
        except ClientGone:
            given_up.append(work)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(client, a_work(turns))
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        turns.close()
    assert len(given_up) == 5
    with pytest.raises(ClientGone):
        await a_work(turns).next_slice()


def test_a_request_that_rests_still_has_what_a_thread_frees_afterwards():
    """Its bytes count elsewhere meanwhile, and nothing is held when the request is answered."""
    work = a_work(Turns())
    large = ["a"]
    work.doomed.append(large)
    work.release()
    assert work.doomed == [large]
    work.end_request()
    assert work.doomed == []
