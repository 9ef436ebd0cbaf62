"""The authorizer's answers for one request: a guard asks here what the client may do.

A guard is a coroutine ``guard(request, rights)`` that returns the response. It begins in the
connection's own task, so it may wait only as ``kwire.handlers.lib.waiting`` allows.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from types import CoroutineType, coroutine
from typing import Any, TypeAlias

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import apart, each, free_in_slices, give_way, pieces
from kwire.handlers.lib.waiting import Unfinished, Wait, later
from kwire.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.protocol.types import ZERO_UUID
from kwire.security.audit import note_answer
from kwire.security.authorizer import Authorizer

Guard: TypeAlias = Callable[[Any, "Authorization"], Awaitable[Any]]


class Authorization:
    """Answers what the client of one request may do. ``api`` is the API's name for the audit
    log.
    """

    __slots__ = ("_api", "_authorizer", "_handle", "context")

    def __init__(
        self,
        authorizer: Authorizer,
        api: str,
        handle: Callable[[Any, RequestContext], Any],
        context: RequestContext,
    ) -> None:
        self._authorizer = authorizer
        self._api = api
        self._handle = handle
        self.context = context

    async def serve(self, request: Any) -> Any:
        """The handler's response."""
        answer = self._handle(request, self.context)
        if type(answer) is Unfinished:
            return await _rest(answer)
        if type(answer) is CoroutineType:
            return await later(lambda: answer)
        return answer

    def may(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        tells_denied: bool = True,
        count: int = 1,
    ) -> bool:
        """Whether the client may do this. The audit log records the answer for ``count`` elements.

        ``tells_denied`` is False if a denial only hides something and is not worth a line in the
        log.
        """
        client = self.context.connection
        rule = self._authorizer.rule(client, operation, resource_type, name)
        if rule.is_allowed or tells_denied:
            question = operation, resource_type, name
            note_answer(self._authorizer, client, self._api, question, rule, count)
        return rule.is_allowed

    def may_on_cluster(self, operation: AclOperation, *, tells_denied: bool = True) -> bool:
        """Whether the client may do this to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, tells_denied=tells_denied)

    def may_somewhere(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may do this to any resource of a type."""
        return self._authorizer.allows_somewhere(self.context.connection, operation, resource_type)

    async def allowed_names(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Collection[str],
        *,
        tells_denied: bool = True,
    ) -> set[str]:
        """The names of the resources to which the client may do this."""
        work = self.context.work
        counts: dict[str, int] = {}
        for piece in pieces(list(names)):
            await give_way(work)
            for name in piece:
                counts[name] = counts.get(name, 0) + 1
        found: set[str] = set()
        for piece in pieces(list(counts)):
            await give_way(work)
            found.update(
                name
                for name in piece
                if self.may(
                    operation,
                    resource_type,
                    name,
                    tells_denied=tells_denied,
                    count=counts[name],
                )
            )
        free_in_slices(counts, work)
        free_in_slices(found, work)
        return found

    async def make_each(self, make: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """``make(item)`` for every item, in slices of the event loop."""
        return await each(make, items, self.context.work)

    async def split(
        self, is_wanted: Callable[[Any], bool], items: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """The items that are wanted, and the others, in slices of the event loop."""
        wanted, others = await apart(is_wanted, items, self.context.work)
        if others:
            self.context.work.doomed.append(others)
        return wanted, others

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do to a resource, a bit for each, as in responses."""
        return self._authorizer.operations(self.context.connection, resource_type, name)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""
        topic = self.context.broker.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name


@coroutine
def _rest(unfinished: Unfinished) -> Generator[Wait, Any, Any]:
    """Wait as often as the handler has to wait; return its response."""
    while True:
        try:
            result = yield unfinished.waits_for
        except BaseException as error:
            response = unfinished.go_on_with(error)
        else:
            response = unfinished.go_on(result)
        if response is not unfinished:
            return response


FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error code for a denied operation on each type of resource."""


def refused(resource_type: ResourceType) -> KafkaError:
    """The error for a denied operation, if the response has no field for this error code."""
    return KafkaError(FAILED[resource_type], "the client is not authorized")


async def split_topics(
    topics: list[Any],
    operation: AclOperation,
    rights: Authorization,
    *,
    by_id: bool = False,
    tells_denied: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Split the topics of a request: those to which the client may do this, and the others.

    A topic id that doesn't exist is in the first list: the handler answers that it is unknown.
    """

    def name_of(topic: Any) -> str | None:
        if by_id and topic.topic_id != ZERO_UUID:
            return rights.name_of(topic.topic_id)
        name: str | None = None if by_id else topic.name
        return name

    await give_way(rights.context.work)
    names = await rights.make_each(name_of, topics)
    wanted = [name for name in names if name is not None]
    allowed = await rights.allowed_names(
        operation, ResourceType.TOPIC, wanted, tells_denied=tells_denied
    )
    if len(allowed) == len(topics):
        return topics, []
    pairs = list(zip(topics, names, strict=True))
    kept, hidden = await rights.split(lambda one: one[1] is None or one[1] in allowed, pairs)
    others = [topic for topic, _ in hidden]
    rights.context.work.doomed += (pairs, others)
    return [topic for topic, _ in kept], others
