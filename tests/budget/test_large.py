"""The memory of all large requests together: who enters, who goes on, and who waits."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from kwire.budget.large import SMALL_BYTES
from kwire.budget.work import LARGE_ANSWER_BYTES, OBJECT_BYTES, Turns, Work
from tests.support.clock import HandClock


@pytest.fixture
def turns():
    turns = Turns(HandClock())
    turns.large.max_bytes = lambda: 4000  # a quarter is for small requests
    return turns


def a_work(turns, held_bytes=0, used_s=0):
    work = Work(turns, lambda: False)
    work.begin_request()
    work.used_s = used_s
    work.hold(held_bytes)
    return work


class Requests:
    """Requests that ask for a slice, in tasks."""

    def __init__(self, nursery):
        self.nursery = nursery
        self.went_on = []

    async def ask(self, work, name):
        self.nursery.start_soon(self._ask, work, name)
        await wait_all_tasks_blocked()

    async def _ask(self, work, name):
        await work.next_slice()
        self.went_on.append(name)


@pytest.fixture
async def requests(nursery):
    return Requests(nursery)


async def test_requests_enter_while_they_fit(turns, requests):
    """A request that doesn't fit beside the others waits until one of them is answered."""
    first, second = a_work(turns, 600), a_work(turns, 600)
    await requests.ask(first, "first")
    await requests.ask(second, "second")
    assert requests.went_on == ["first"]
    first.release()
    await wait_all_tasks_blocked()
    assert requests.went_on == ["first", "second"]
    second.release()
    assert turns.large.held_bytes == 0


async def test_a_request_larger_than_the_limit_enters_alone(turns, requests):
    """The limit delays a request, and refuses none."""
    large, other = a_work(turns, 5000), a_work(turns, 1)
    await requests.ask(large, "large")
    await requests.ask(other, "other")
    assert requests.went_on == ["large"]
    large.release()
    await wait_all_tasks_blocked()
    assert requests.went_on == ["large", "other"]
    other.release()


async def test_small_requests_do_not_wait(turns, requests):
    """A request that holds nothing takes no part, however much the others hold."""
    large, waits = a_work(turns, 5000), a_work(turns, 5000)
    await requests.ask(large, "large")
    await requests.ask(waits, "waits")
    await requests.ask(a_work(turns), "small")
    assert requests.went_on == ["large", "small"]
    large.release()
    waits.release()


async def test_the_client_that_has_used_least_enters_first(turns, requests):
    """A busy client's requests let a modest client's request go before them."""
    inside = a_work(turns, 1000)
    await requests.ask(inside, "inside")
    busy = a_work(turns, 1000, used_s=0.05)
    await requests.ask(busy, "busy")
    modest = a_work(turns, 1000, used_s=0.01)
    await requests.ask(modest, "modest")
    inside.release()
    await wait_all_tasks_blocked()
    assert requests.went_on == ["inside", "modest"]
    modest.release()
    await wait_all_tasks_blocked()
    assert requests.went_on == ["inside", "modest", "busy"]
    busy.release()


async def test_of_growing_responses_only_the_first_goes_on(turns, requests):
    """Responses that grow beyond the limit together are made one after the other."""
    works = [a_work(turns, 10) for _ in range(3)]
    for number, work in enumerate(works):
        await requests.ask(work, f"{number} enters")
    for work in works:
        work.answer(LARGE_ANSWER_BYTES)  # not counted
        work.answer(400 // OBJECT_BYTES)
    requests.went_on.clear()
    for number in (2, 1, 0):
        await requests.ask(works[number], number)
    assert requests.went_on == [0]
    works[0].release()
    await wait_all_tasks_blocked()
    assert requests.went_on == [0, 2, 1] or requests.went_on == [0, 1, 2]
    for work in works:
        work.release()
    assert turns.large.held_bytes == 0


async def test_a_client_that_leaves_the_line_holds_up_nobody(turns, requests):
    """A cancelled request gives up its place; the next one enters."""
    inside, patient = a_work(turns, 900), a_work(turns, 900, used_s=2)
    await requests.ask(inside, "inside")
    with trio.move_on_after(0):
        await a_work(turns, 900, used_s=1).next_slice()
    await requests.ask(patient, "patient")
    inside.release()
    await wait_all_tasks_blocked()
    assert requests.went_on == ["inside", "patient"]
    patient.release()


async def test_a_new_request_starts_with_nothing(turns, requests):
    """What a request held is free again when its response is made."""
    work = a_work(turns, 900)
    await requests.ask(work, "once")
    work.release()
    work.begin_request()
    assert (work.held_bytes, turns.large.held_bytes) == (0, 0)


async def test_a_small_request_does_not_wait_for_giants(turns, requests):
    """The rooms are apart: what holds much delays only what holds much as well."""
    giant, other = a_work(turns, SMALL_BYTES + 1), a_work(turns, SMALL_BYTES + 1)
    await requests.ask(giant, "giant")
    await requests.ask(other, "other")
    small = a_work(turns, 900)
    await requests.ask(small, "small")
    assert requests.went_on == ["giant", "small"]
    for work in (giant, other, small):
        work.release()


async def test_a_response_that_becomes_large_changes_the_room(turns, requests):
    """A small request makes room for other small ones, once its response has grown."""
    inside, grows, next_small = (
        a_work(turns, SMALL_BYTES + 1),
        a_work(turns, 900),
        a_work(turns, 900),
    )
    await requests.ask(inside, "inside")
    await requests.ask(grows, "grows")
    await requests.ask(next_small, "next")
    grows.hold(SMALL_BYTES)
    await requests.ask(grows, "has grown")
    assert requests.went_on == ["inside", "grows", "next"]
    inside.release()
    await wait_all_tasks_blocked()
    assert requests.went_on[-1] == "has grown"
    grows.release()
    next_small.release()
    assert turns.large.held_bytes == 0
