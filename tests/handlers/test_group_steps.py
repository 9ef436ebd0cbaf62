"""A step of a large classic group waits for a slice; a step of a small one doesn't."""

import pytest

from kwire.budget.work import FIRST_UNITS
from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.classic_member import Member
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.group_steps import MEMBERS_PER_UNIT, coordinator_for_step
from kwire.handlers.lib.waiting import Unfinished, at_once_or_later
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.work import free_work


@pytest.mark.parametrize("members", [MEMBERS_PER_UNIT * FIRST_UNITS, 100])
async def test_a_step_costs_as_much_as_the_group_has_members(tmp_path, members):
    """A hundred joins to a group of thousands don't take place in one pass of the event loop."""
    async with running_server(tmp_path) as server:
        broker = server.broker
        await broker.groups.ensure_topic()
        await until(lambda: broker.groups.coordinator("large"))
        home = broker.groups.coordinator("large")
        group = ClassicGroup("large", home.groups.classic._registry.turn(0))
        for number in range(members):
            member = Member(f"m-{number}", None, "c", "/h", 1000, 1000, (("range", b""),))
            group.members[member.member_id] = member
        home.groups.groups["large"] = group
        work = free_work()
        context = RequestContext(broker, ConnectionInfo(1, "L", "h", 1, "h", 2), 9, "c", work)
        work.spend(FIRST_UNITS - 20)
        found = at_once_or_later(coordinator_for_step("large", context))
        assert isinstance(found, Unfinished) == (members > 100)
        assert found is home or await found.work() is home
        del home.groups.groups["large"]
