"""ExplainGroup over a socket, and that nobody is told of it."""

from kwire.errors import ErrorCode
from kwire.handlers import advertised_versions
from kwire.protocol.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse


async def _explain(member, group_id="billing"):
    request = ExplainGroupRequest(group_id=group_id)
    return await member.client.request(request, 0, ExplainGroupResponse)


async def test_a_group_is_explained(server, member):
    """Its state, and what has happened with the time of each event; also when it is gone."""
    await member.become_stable()
    answer = await _explain(member)
    assert (answer.error_code, answer.group_type, answer.group_state) == (0, "classic", "Stable")
    joined, formed, assigned = (event.text for event in answer.events)
    assert joined.startswith(f"{member.member_id} joins (client raw at /127.0.0.1, no reason given")
    assert formed.startswith("generation 1 has 1 member")
    assert assigned.startswith("generation 1 is assigned")
    now_ms = server.broker.now_ms()
    assert all(abs(now_ms - event.at_ms) < 60_000 for event in answer.events)


async def test_a_group_nobody_knows(member):
    """GROUP_ID_NOT_FOUND; INVALID_GROUP_ID without a name."""
    assert (await _explain(member, "other")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await _explain(member, "")).error_code == ErrorCode.INVALID_GROUP_ID


def test_clients_are_not_told():
    """Kafka's clients see Kafka's APIs."""
    assert max(key for key, _, _ in advertised_versions()) < 20_000
