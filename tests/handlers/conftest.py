"""A broker with a topic of two partitions, and a client of a group over a raw connection."""

from collections.abc import Awaitable, Callable

import pytest

from tests.support.in_process import RunningServer, running_server
from tests.support.members import Member

GROUP = "billing"


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders``."""
    settings = {
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "2",
        "num.partitions": "2",
    }
    async with running_server(tmp_path, settings) as running:
        await running.topic("orders", partitions=2)
        await running.find_coordinator(GROUP)
        yield running


@pytest.fixture
def new_member(server: RunningServer) -> Callable[..., Awaitable[Member]]:
    """Makes members, each on a connection of its own."""

    async def connect(group_id: str = GROUP) -> Member:
        return Member(await server.connect(), group_id)

    return connect


@pytest.fixture
async def member(new_member) -> Member:
    """One member."""
    return await new_member()
