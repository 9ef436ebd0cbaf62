"""Calls into the broker's event loop, one at a time."""

import pytest
import trio
import trio.testing

from kwire.web.cross_loop_calls import BrokerCalls, Observed


@pytest.fixture
def calls(nursery: trio.Nursery) -> BrokerCalls:
    """Calls within one loop, whose observed server isn't asked."""
    return BrokerCalls(Observed(), nursery, lambda: 0)


async def test_a_call_of_a_client_that_is_gone_ends_before_the_next_begins(
    calls: BrokerCalls,
) -> None:
    """Or many clients that leave would cost the broker many calls at once."""
    seen: list[str] = []

    async def work(observed: Observed, name: str) -> None:
        seen.append(f"{name} begins")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            seen.append(f"{name} ends")

    async with trio.open_nursery() as clients:
        scopes = [trio.CancelScope() for _ in range(3)]

        async def ask(name: str, scope: trio.CancelScope) -> None:
            with scope:
                await calls.run(work, name)

        for number, scope in enumerate(scopes):
            clients.start_soon(ask, str(number), scope)
            await trio.testing.wait_all_tasks_blocked()
        assert seen == ["0 begins"]
        for scope in scopes:
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
    assert seen == ["0 begins", "0 ends", "1 begins", "1 ends", "2 begins", "2 ends"]


async def test_a_result_and_an_error_come_back(calls: BrokerCalls) -> None:
    """As they are."""

    async def answer(observed: Observed, value: int) -> int:
        return 1 // value

    assert await calls.run(answer, 1) == 1
    with pytest.raises(ZeroDivisionError):
        await calls.run(answer, 0)
