"""Work in slices: who has a slice when, and how long a request takes before it waits."""

import pytest
import trio
import trio.testing

from kwire.budget.timed import timed
from kwire.budget.work import (
    CREDIT_S,
    FIRST_S,
    LEAST_S,
    MOST_PAYERS,
    PASS_S,
    SLICE_S,
    AnswerTooLarge,
    ClientGone,
    Turns,
    Work,
)
from tests.support.clock import HandClock

MOMENT_S = 1e-6


def stopped_turns():
    """Slices of a loop whose time stands still."""
    return Turns(HandClock())


def a_work(turns, **options):
    work = Work(turns, lambda: False, **options)
    work.begin_request()
    return work


async def test_what_fits_into_a_slice_waits_for_nothing():
    """A small request is served at once."""
    clock = HandClock()
    work = a_work(Turns(clock))
    clock.pass_time(FIRST_S - MOMENT_S)
    assert not work.is_due
    await work.give_way()
    assert not work.is_large


async def test_what_does_not_fit_into_a_slice_waits_for_the_next():
    """A request that has used up its slice has a new one after the event loop has turned."""
    clock = HandClock()
    work = a_work(Turns(clock))
    clock.pass_time(FIRST_S)
    await work.give_way()
    assert work.is_large
    clock.pass_time(SLICE_S - MOMENT_S)
    assert not work.is_due
    clock.pass_time(2 * MOMENT_S)
    assert work.is_due


async def test_who_waits_for_a_slice_has_been_charged_the_last_one():
    """Otherwise the line would not know who has used the least time."""
    clock = HandClock()
    work = a_work(Turns(clock))
    ahead = []

    async def pieces():
        clock.pass_time(10 * SLICE_S)
        ahead.append(work.used_s)
        await work.give_way()
        ahead.append(work.used_s)
        clock.pass_time(SLICE_S)
        await trio.lowlevel.checkpoint()

    await timed(pieces(), work)
    assert ahead == [0, 10 * SLICE_S]
    assert work.used_s == pytest.approx(11 * SLICE_S)


async def test_the_waits_of_a_task_are_not_charged():
    """Only the steps in which the event loop works on a request count."""
    clock = HandClock()
    work = a_work(Turns(clock))

    async def wait():
        clock.pass_time(2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
        clock.pass_time(3)
        return "done"

    async def others():
        clock.pass_time(100)

    assert await timed(wait(), work) == "done"
    assert work.used_s == 5


async def test_an_error_reaches_the_timed_task():
    """A cancellation too, and what the task has used by then counts."""
    clock = HandClock()
    work = a_work(Turns(clock))

    async def wait():
        clock.pass_time(1)
        try:
            await trio.sleep_forever()
        finally:
            clock.pass_time(1)

    with trio.CancelScope() as scope:
        scope.cancel()
        await timed(wait(), work)
    assert scope.cancelled_caught
    assert work.used_s == 2


def begun_as(turns, payer):
    """What a new connection of this payer has used, and changed."""
    work = a_work(turns)
    turns.begin_as(work, payer)
    return turns.rank(work.used_s), work.changes


def test_a_host_that_connects_anew_goes_on_where_it_was():
    """Who reconnects for each request isn't always ahead of the others."""
    turns = stopped_turns()
    turns.floor_s = 10 * CREDIT_S
    behind_s = turns.floor_s - CREDIT_S
    assert begun_as(turns, "attacker") == (behind_s, 0)
    turns.leave("attacker", 9.5 * CREDIT_S)
    turns.leave("attacker", CREDIT_S, 7)
    assert begun_as(turns, "attacker") == (9.5 * CREDIT_S, 7)
    assert begun_as(turns, "neighbor") == (behind_s, 0)


def test_what_hosts_have_used_is_bounded():
    """The hosts whose connections ended last are known."""
    turns = stopped_turns()
    for n in range(MOST_PAYERS + 10):
        turns.leave(f"host-{n}", n)
    assert begun_as(turns, "host-9") == (0, 0)
    assert begun_as(turns, f"host-{MOST_PAYERS + 9}") == (MOST_PAYERS + 9, 0)


def test_all_connections_share_one_pass():
    """However many connections do work at once, one pass of the loop has a bound."""
    clock = HandClock()
    turns = Turns(clock)
    for _ in range(100):
        work = a_work(turns)
        while not work.is_due:
            clock.pass_time(LEAST_S / 4)
        if turns.is_over:
            break
    assert PASS_S <= clock.now_s < PASS_S + LEAST_S
    turns.begin_pass()
    assert not turns.is_over
    work = a_work(turns)
    clock.pass_time(FIRST_S - MOMENT_S)
    assert not work.is_due


def test_a_small_request_at_the_end_of_a_pass_needs_no_second_slice():
    """It is served in the pass, though that is over a moment later."""
    clock = HandClock()
    turns = Turns(clock)
    clock.pass_time(PASS_S)
    work = a_work(turns)
    clock.pass_time(LEAST_S - MOMENT_S)
    assert not work.is_due
    clock.pass_time(2 * MOMENT_S)
    assert work.is_due


async def test_one_slice_is_done_in_each_pass_of_the_loop():
    """Between two slices everybody else has a turn; trio shuffles who goes first in a pass."""
    turns = stopped_turns()
    order = []

    async def client(name):
        work = a_work(turns)
        for _ in range(3):
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
    turns = stopped_turns()
    served = []

    async def client(work, name):
        await work.next_slice()
        served.append(name)

    heavy = [a_work(turns) for _ in range(50)]
    for work in heavy:
        work.used_s = 100 * SLICE_S
    async with trio.open_nursery() as nursery:
        for work in heavy:
            nursery.start_soon(client, work, "heavy")
        await trio.testing.wait_all_tasks_blocked(0)
        nursery.start_soon(client, a_work(turns), "light")
    assert served.index("light") <= 50
    assert len(served) == 51


async def test_a_quiet_client_is_first_among_busy_ones():
    """The queue is ordered by use, and the quiet client's use is the least."""
    clock = HandClock()
    turns = Turns(clock)
    served = []
    gate = trio.Event()

    async def busy(work):
        await gate.wait()
        for _ in range(20):
            work.resume()
            clock.pass_time(SLICE_S)
            await work.next_slice()
            served.append("busy")

    async def quiet():
        await gate.wait()
        while served.count("busy") < 500:
            await trio.lowlevel.checkpoint()
        work = a_work(turns)
        before = len(served)
        work.resume()
        clock.pass_time(SLICE_S)
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
    turns = stopped_turns()
    busy = a_work(turns)
    busy.used_s = 1000 * SLICE_S
    await busy.next_slice()
    back = a_work(turns)
    await back.next_slice()
    assert back.used_s == busy.used_s - CREDIT_S


async def test_a_client_that_is_gone_is_not_worked_for():
    """The next slice of a request whose connection has ended is an exception."""
    work = Work(stopped_turns(), lambda: True)
    with pytest.raises(ClientGone):
        await work.next_slice()


@pytest.mark.parametrize("cancelled", range(4))
async def test_who_is_cancelled_leaves_the_queue(cancelled):
    """Whoever of those that wait is cancelled, the others have their slices."""
    turns = stopped_turns()
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
    work = a_work(stopped_turns(), max_answer_bytes=100)
    work.answer(60)
    with pytest.raises(AnswerTooLarge, match=r"kwire\.response\.max\.bytes=100"):
        work.answer(41)
    work.begin_request()
    work.answer(100)


async def test_a_stop_gives_up_requests_that_need_another_slice():
    """Those that wait for a slice, and those that ask later."""
    turns = stopped_turns()
    given_up = []

    async def client(work):
        try:
            while True:
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
    work = a_work(stopped_turns())
    large = ["a"]
    work.doomed.append(large)
    work.release()
    assert work.doomed == [large]
    work.end_request()
    assert work.doomed == []


def test_time_in_which_a_request_waits_does_not_belong_to_its_slice():
    """For a thread, the disk, or until its task begins."""
    time = HandClock()
    work = a_work(Turns(time))
    work.resume()
    time.pass_time(FIRST_S / 4)
    work.rest()
    time.pass_time(1)
    work.resume()
    assert not work.is_due
    time.pass_time(FIRST_S)
    assert work.is_due
    assert work.used_s == pytest.approx(FIRST_S / 4), "the step in hand is counted when it ends"


def test_what_belongs_to_a_request_is_its_own():
    """Another one of the same connection may be begun while it waits."""
    turns = Turns()
    work, things = a_work(turns, max_answer_bytes=100), [1]
    work.is_large, work.outlives_client = True, True
    work.doomed.append(things)
    work.answer(90)
    in_hand = work.set_aside()
    work.begin_request()
    work.answer(90)
    assert not work.is_large
    assert not work.outlives_client
    assert work.doomed == []
    behind = work.set_aside()
    work.take_up(in_hand)
    assert work.is_large
    assert work.outlives_client
    assert work.doomed == [things]
    with pytest.raises(AnswerTooLarge):
        work.answer(20)
    work.take_up(behind)
    assert not work.is_large
    assert work.doomed == []
