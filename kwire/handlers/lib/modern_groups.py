"""The frame of the APIs of modern groups (``kwire.coordinator.modern_group``), for all kinds.

A kind's heartbeat is ``heartbeat`` with the groups that take it, and ``subscribed_topics`` in its
``RIGHTS``. Its description is ``describe_groups``, and ``described_topics`` in its ``RIGHTS``.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.broker.broker import Broker
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client, Visible
from kwire.coordinator.modern_groups import ModernGroups
from kwire.errors import KafkaError
from kwire.handlers.lib.context import GROUP_OPERATIONS, NOT_ASKED, RequestContext
from kwire.handlers.lib.replies import answer
from kwire.handlers.lib.rights import DESCRIBE, FAILED, TOPIC, Right, Serve, right
from kwire.handlers.lib.slices import give_way
from kwire.runtime import Reply

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 50
"""The bytes that each part of a description has without its names and numbers."""

_R = TypeVar("_R")
_D = TypeVar("_D")


async def heartbeat(
    request: Any,
    context: RequestContext,
    response: Callable[..., _R],
    groups_of: Callable[[GroupCoordinator], ModernGroups[Any, Any, Any, _R]],
    check_ahead: Callable[[], Awaitable[None]],
    visible: Visible | None = None,
) -> _R:
    """Take a member one step further; a KafkaError becomes a ``response`` with its code and text.

    ``check_ahead`` raises KafkaError for what no coordinator is asked about. ``visible`` says which
    topics the member may know, if it subscribes to more than names.
    """
    client = Client(context.client_id or "", context.client_host, context.api_version, visible)
    reply = Reply()
    groups = context.broker.groups
    try:
        await check_ahead()
        home = groups.coordinator_or_empty(request.group_id)
        now_ms = groups.now_ms()
        home.carry_out(groups_of(home.coordinator).heartbeat(request, client, reply, now_ms))
    except KafkaError as error:
        return response(error_code=error.code, error_message=error.message or None)
    made: _R = await answer(reply, context)
    return made


def subscribed_topics(
    response: Callable[..., Any],
    names_of: Callable[[Any], Iterable[str]] = lambda request: request.subscribed_topic_names or (),
    needs: str = "DESCRIBE on every topic that the member subscribes to by name",
) -> Right:
    """DESCRIBE on every topic that a heartbeat names (``names_of``); ``response`` refuses it."""

    @right(needs)
    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        names = set(names_of(request))
        if names - await rights.allowed_names(DESCRIBE, TOPIC, names):
            return response(error_code=FAILED[TOPIC])
        return await serve(request)

    return check


async def describe_groups(
    request: Any,
    context: RequestContext,
    described: Callable[..., _D],
    describe: Callable[[str, Broker], tuple[_D, Iterable[Any]]],
    member_bytes: Callable[[Any], int],
    group_bytes: Callable[[Any], int] = lambda group: BYTES,
) -> list[_D]:
    """Every group that a request names; one that it names twice is described once.

    ``describe(group_id, broker)`` describes a group, and its members when they are asked for: a
    group may have many. Its KafkaError goes into a group made by ``described``. ``group_bytes`` and
    ``member_bytes`` give the approximate sizes in the response, of a group without its members, and
    of a member.
    """
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    work = context.work
    known: dict[str, tuple[Any, int]] = {}
    groups: list[_D] = []
    for group_id in request.group_ids:
        await give_way(work)
        if group_id not in known:
            group: Any
            members: Iterable[Any] = ()
            try:
                group, members = describe(group_id, context.broker)
                group.authorized_operations = operations
            except KafkaError as error:
                group = described(
                    group_id=group_id, error_code=error.code, error_message=error.message or None
                )
            before_bytes = work.answered_bytes
            work.answer(group_bytes(group))
            for member in members:
                work.answer(member_bytes(member))
                group.members.append(member)
                await give_way(work)
            known[group_id] = group, work.answered_bytes - before_bytes
        else:
            group, size_bytes = known[group_id]
            work.answer(size_bytes)
        groups.append(group)
    return groups


def described_topics(
    names_of: Callable[[Any], Iterable[Iterable[str]]],
    needs: str = "on every topic that its members have or subscribe to",
    message: str = (
        "The group has described topic(s) that the client is not authorized to describe."
    ),
    **untold: Any,
) -> Right:
    """DESCRIBE on every topic in the description of a group, which ``names_of`` gives in pieces.

    Otherwise the group has an error with this message, no members, and the fields ``untold``.
    """

    @right(needs)
    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        response = await serve(request)
        for group in response.groups:
            await give_way(rights.context.work)
            names: set[str] = set()
            for some in names_of(group):
                await give_way(rights.context.work)
                names.update(some)
            if names - await rights.allowed_names(DESCRIBE, TOPIC, names, tells_denied=False):
                group.error_code, group.error_message = FAILED[TOPIC], message
                group.members = []
                for field, value in untold.items():
                    setattr(group, field, value)
        return response

    return check


def topics_of_members(
    group: Any, assignments_of: Callable[[Any], Iterable[Any]]
) -> Iterator[Iterable[str]]:
    """The topics to which the members of a described group subscribe, and those they have."""
    for member in group.members:
        yield member.subscribed_topic_names
        for assignment in assignments_of(member):
            yield [topic.topic_name for topic in assignment.topic_partitions]


def bytes_of_member(member: Any, assignments_of: Callable[[Any], Iterable[Any]]) -> int:
    """The approximate size of a described member that subscribes to topics."""
    size_bytes = BYTES + sum(BYTES + len(name) for name in member.subscribed_topic_names)
    for assignment in assignments_of(member):
        size_bytes += sum(BYTES + 4 * len(t.partitions) for t in assignment.topic_partitions)
    return size_bytes
