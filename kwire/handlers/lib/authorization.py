"""What the client of a request may do: asked by the rights of its API (``lib.rights``).

Without an authorizer, nothing of this is imported. A check of rights begins in the connection's own
task, so it may wait only as ``kwire.handlers.lib.waiting`` allows.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from kwire.errors import KafkaError
from kwire.handlers.lib.context import NOT_ASKED, RequestContext
from kwire.handlers.lib.slices import apart, each, free_in_slices, give_way, pieces
from kwire.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.protocol.messages import message_classes
from kwire.protocol.refusing import Refusing, elements, refusing, refusing_each
from kwire.protocol.taking_apart import take_apart
from kwire.protocol.types import ZERO_UUID
from kwire.security.audit import note_answer
from kwire.security.authorizer import Authorizer

AT_ONCE = 64
"""So many elements are looked at between two looks at the clock."""

RULES_AT_ONCE = 16
"""An answer that the authorizer hasn't cached takes some microseconds."""

REFUSAL_BYTES = 30
"""The bytes of a refused element in a response, roughly, beside the text of its error."""


class Authorization:
    """Says what the client of one request may do. ``api`` is the API's name for the audit log."""

    __slots__ = ("_api", "_authorizer", "context")

    def __init__(self, authorizer: Authorizer, api: str, context: RequestContext) -> None:
        self._api = api
        self._authorizer = authorizer
        self.context = context

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

    def may_any(
        self, operations: Sequence[AclOperation], kind: ResourceType, name: str | None
    ) -> bool:
        """Whether the client may do one of these; None is the name of the cluster."""
        name = CLUSTER_NAME if name is None else name
        return any(
            self.may(one, kind, name, tells_denied=one is operations[-1]) for one in operations
        )

    def may_somewhere(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may do this to any resource of a type."""
        return self._authorizer.allows_somewhere(self.context.connection, operation, resource_type)

    async def allowed_names(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str | None],
        *,
        tells_denied: bool = True,
    ) -> set[str]:
        """The names of the resources to which the client may do this. None is no name."""
        work = self.context.work
        counts: dict[str, int] = {}
        left = iter(names)
        while some := list(islice(left, AT_ONCE)):
            await give_way(work)
            for name in some:
                if name is not None:
                    counts[name] = counts.get(name, 0) + 1
        found: set[str] = set()
        each_once = iter(counts)
        while some_once := list(islice(each_once, RULES_AT_ONCE)):
            await give_way(work)
            found.update(
                name
                for name in some_once
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

    def may_all(
        self,
        items: Sequence[Any],
        operation: AclOperation,
        kind: ResourceType,
        name_of: Callable[[Any], str | None],
    ) -> bool:
        """Whether the client may do this to few items, and the audit log needn't say so.

        Most requests are such. What is denied is found out, and said, by ``split_by_name``.
        """
        authorizer, client = self._authorizer, self.context.connection
        if len(items) > RULES_AT_ONCE or authorizer.notes_allowed:
            return False
        names = [name_of(item) for item in items]
        return all(
            name is None or authorizer.allows(client, operation, kind, name) for name in names
        )

    async def each(self, make: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
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

    async def split_by_name(
        self,
        items: Sequence[Any],
        operation: AclOperation,
        kind: ResourceType,
        name_of: Callable[[Any], str | None],
        *,
        tells_denied: bool = True,
    ) -> tuple[list[Any], list[Any]]:
        """The items on which the client has an operation, or that have no name; and the others.

        A topic id that doesn't exist has no name: the handler answers that it is unknown.
        """
        work = self.context.work
        names = await self.each(name_of, items)
        allowed = await self.allowed_names(operation, kind, names, tells_denied=tells_denied)
        kept: list[Any] = []
        hidden: list[Any] = []
        for start in range(0, len(items), AT_ONCE):
            await give_way(work)
            end = start + AT_ONCE
            for item, name in zip(items[start:end], names[start:end], strict=True):
                (kept if name is None or name in allowed else hidden).append(item)
        free_in_slices(names, work)
        return kept, hidden

    async def distinct(
        self, items: Sequence[Any], name_of: Callable[[Any], str | None]
    ) -> list[Any]:
        """The first item of each name."""
        found: dict[str | None, Any] = {}
        for piece in pieces(items):
            await give_way(self.context.work)
            for item in piece:
                found.setdefault(name_of(item), item)
        free_in_slices(found, self.context.work)
        return list(found.values())

    async def keep_seen(
        self, response: Any, field: str, operation: AclOperation, kind: ResourceType, named: str
    ) -> None:
        """Leave out the elements of a response that the client may not see."""
        kept, _ = await self.split_by_name(
            getattr(response, field),
            operation,
            kind,
            lambda element: getattr(element, named),
            tells_denied=False,
        )
        setattr(response, field, kept)

    def empty_response(self, request: Any) -> Any:
        """A response without elements."""
        return message_classes(request.API_KEY)[1]()

    async def refuse(self, request: Any, error: KafkaError, *, every: bool = False) -> Any:
        """The response that refuses a request, with ``every`` each of its elements too."""
        answer = message_classes(request.API_KEY)[1]
        version = self.context.api_version
        return await self.made(refusing(request, answer, error, version, every=every), error)

    async def refused_elements(
        self, request: Any, field: str, refused: Sequence[Any], error: KafkaError
    ) -> list[Any]:
        """The answers to refused elements of an array of the request."""
        kind, _, answer = elements(field, *message_classes(request.API_KEY))
        version = self.context.api_version
        made: list[Any] = await self.made(
            refusing_each(refused, kind, answer, error, version), error
        )
        return made

    async def add_refused(
        self,
        response: Any,
        request: Any,
        field: str,
        refused: Sequence[Any],
        error: KafkaError,
    ) -> None:
        """Add the answers to refused elements of an array of the request to the response."""
        answers = await self.refused_elements(request, field, refused, error)
        self.insert(response, request, field, answers)

    def insert(
        self,
        response: Any,
        request: Any,
        field: str,
        answers: Sequence[Any],
        *,
        is_first: bool = False,
    ) -> None:
        """Put answers behind those to the other elements of an array of the request, or before."""
        _, name, _ = elements(field, *message_classes(request.API_KEY))
        others = getattr(response, name)
        at = 0 if is_first else len(others)
        others[at:at] = answers

    async def free(self, items: list[Any]) -> None:
        """Take apart elements of the request that nobody needs, in slices of the event loop."""
        for _ in take_apart(items):
            await give_way(self.context.work)

    async def made(self, steps: Refusing, error: KafkaError) -> Any:
        """What refuses a request or its elements, made in slices of the event loop."""
        work = self.context.work
        each_bytes = REFUSAL_BYTES + len(error.message or "")
        while True:
            try:
                count = next(steps)
            except StopIteration as done:
                return done.value
            work.answer(count * each_bytes)
            await give_way(work)

    async def tell_operations(
        self, elements: Sequence[Any], kind: ResourceType, named: str, field: str
    ) -> None:
        """Fill in what the client may do to each element of a response, where it has asked."""
        for piece in pieces(elements, RULES_AT_ONCE):
            await give_way(self.context.work)
            for one in piece:
                name = getattr(one, named)
                if name is not None and getattr(one, field) != NOT_ASKED:
                    setattr(one, field, self.operations(kind, name))

    def tell_cluster_operations(self, response: Any) -> None:
        """Fill in what the client may do to the cluster; 0 if it may not even describe it."""
        if response.cluster_authorized_operations != NOT_ASKED:
            sees = self.may_on_cluster(AclOperation.DESCRIBE)
            response.cluster_authorized_operations = (
                self.operations(ResourceType.CLUSTER, CLUSTER_NAME) if sees else 0
            )

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may do to a resource, a bit for each, as in responses."""
        return self._authorizer.operations(self.context.connection, resource_type, name)

    def name_of_topic(self, topic: Any) -> str | None:
        """The name of a topic that a request names by id; None for an id that doesn't exist."""
        return None if topic.topic_id == ZERO_UUID else self.name_of(topic.topic_id)

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id."""
        topic = self.context.broker.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name
