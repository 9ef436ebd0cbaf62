"""JoinGroup: a member joins a classic group, and waits for the others; see ``classic_protocol``."""

from typing import TYPE_CHECKING, Any

from kwire.coordinator.joining import Client
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.member_size import check_member_size
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import FAILED, GROUP, READ, Serve, right
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.runtime import Reply

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

NULL_NAMES_SINCE = 7

BYTES = 50

MOST_PROTOCOLS = 1000
"""Far above the number of assignors that a member offers: clients have two or three."""


async def handle(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    """Answer when the rebalance is complete."""
    response = await _join(request, context)
    # Without a protocol the name is null, or empty in the versions that have no null.
    name = response.protocol_name or None
    response.protocol_name = name if context.api_version >= NULL_NAMES_SINCE else name or ""
    return response


async def _join(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    client = Client(context.client_id or "", context.client_host, context.api_version)
    reply = Reply()
    try:
        if len(request.protocols) > MOST_PROTOCOLS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        await check_member_size(map(_bytes_of, request.protocols), context)
        home = context.broker.groups.coordinator(request.group_id)
        home.carry_out(
            home.coordinator.members.join(request, client, reply, context.broker.groups.now_ms())
        )
    except KafkaError as error:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id)
    response = await answer(reply, context)
    assert isinstance(response, JoinGroupResponse)
    if response.members:
        context.work.answer(sum(BYTES + len(member.metadata) for member in response.members))
    return response


def _bytes_of(protocol: JoinGroupRequestProtocol) -> int:
    return len(protocol.name) + len(protocol.metadata)


@right("READ on the group")
async def _read_on_group(request: JoinGroupRequest, rights: "Authorization", serve: Serve) -> Any:
    if rights.may(READ, GROUP, request.group_id):
        return await serve(request)
    name = None if rights.context.api_version >= NULL_NAMES_SINCE else ""
    return JoinGroupResponse(error_code=FAILED[GROUP], protocol_name=name)


RIGHTS = (_read_on_group,)
