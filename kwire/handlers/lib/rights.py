"""The rights that an API needs: the vocabulary of the table ``RIGHTS`` beside each handler.

``RIGHTS = once(READ, of=GROUP), each("topics", READ)`` says: READ on the group of the request, and
READ on each topic that it names. With an authorizer, the rights are asked for in this order, and
then the handler serves what is left of the request.

Rules:

- A right makes the checks of Kafka's KafkaApis. A handler gets only the elements that the client
  may use; the answers to the others have the error (``kwire.protocol.refusing``). What the client
  may not see is removed from the response.
- The answer for a topic that the client may not see is the same whether or not the topic exists. A
  topic id is different: the answer shows whether it exists, because ids aren't secret in Kafka.
- Where no word of this table fits, an API has a function: ``@right("what it needs")``.
- An API without ``RIGHTS`` isn't served (``dispatch.routes``), so that nobody can forget them.
- Produce asks the authorizer itself for a request that isn't decoded into objects. If the client
  may not write to the topic, the request is decoded, and comes here.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

READ, WRITE, CREATE, DELETE, ALTER = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE),
    *(AclOperation.DELETE, AclOperation.ALTER),
)
DESCRIBE, CLUSTER_ACTION = AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

FAILED = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error code for a denied operation on each type of resource."""

_NAMES = {TOPIC: "topic", GROUP: "group", CLUSTER: "cluster", TRANSACTIONAL_ID: "transactional id"}
_FIELDS = {GROUP: "group_id", TRANSACTIONAL_ID: "transactional_id"}

Serve: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Serves what is left of a request: asks for the next right, or calls the handler."""

Check: TypeAlias = Callable[[Any, "Authorization", Serve], Awaitable[Any]]
"""(request, the client's rights, serve) → the response."""


class Right(NamedTuple):
    """A right that an API needs; ``needs`` says which, for docs/SECURITY.md."""

    needs: str
    serve: Check


def denied(kind: ResourceType, message: str | None = None) -> KafkaError:
    """The error for a denied operation."""
    name = _NAMES[kind].title() if kind is TRANSACTIONAL_ID else _NAMES[kind].capitalize()
    return KafkaError(FAILED[kind], message or f"{name} authorization failed.")


def right(needs: str) -> Callable[[Check], Right]:
    """Makes a function a right."""
    return lambda check: Right(needs, check)


async def unchecked(request: Any, rights: "Authorization", serve: Serve) -> Any:
    """Serves a request of anybody."""
    return await serve(request)


def everybody(reason: str) -> Right:
    """No right, for this reason."""
    return Right(f"nothing: {reason}", unchecked)


def once(
    *operations: AclOperation, of: ResourceType = CLUSTER, every: bool = False, **told: Any
) -> Right:
    """One of these operations on the cluster, or on the group or transactional id of the request.

    Otherwise the whole request is refused, with ``every`` each of its elements too. ``told`` has
    fields of the refusal that aren't as usual.
    """

    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        name = getattr(request, _FIELDS[of]) if of in _FIELDS else None
        if rights.may_any(operations, of, name):
            return await serve(request)
        response = await rights.refuse(request, denied(of), every=every)
        for field, value in told.items():
            setattr(response, field, value)
        return response

    names = " or ".join(one.name for one in operations)
    return Right(f"{names} on the {_NAMES[of]}", check)


def each(
    field: str,
    operation: AclOperation,
    of: ResourceType = TOPIC,
    *,
    named: str = "name",
    ids_since: int | None = None,
    instead: AclOperation | None = None,
    is_first: bool = False,
    is_distinct: bool = False,
    asks_for_none: bool = False,
) -> Right:
    """An operation on each topic, group or transactional id of a request's array.

    - ``named``: the field with an element's name, if elements aren't names.
    - ``ids_since``: from this version on, topics are named by id.
    - ``instead``: an operation on the cluster that suffices for all.
    - ``is_first``: refused elements are answered before the others.
    - ``is_distinct``: an element that is refused twice is answered once.
    - ``asks_for_none``: the handler is asked although all elements are refused.
    """

    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        if instead is not None and rights.may_on_cluster(instead, tells_denied=False):
            return await serve(request)
        by_id = ids_since is not None and rights.context.api_version >= ids_since
        name_of = rights.name_of_topic if by_id else _named(named)
        asked = getattr(request, field)
        # While the handler waits, nothing here keeps an element: it would keep the whole frame.
        if rights.may_all(asked, operation, of, name_of):
            del asked
            return await serve(request)
        kept, refused = await rights.split_by_name(asked, operation, of, name_of)
        del asked
        setattr(request, field, kept)
        serves = bool(kept) or asks_for_none
        del kept
        if not refused:
            return await serve(request)
        told = await rights.distinct(refused, name_of) if is_distinct else refused
        answers = await rights.refused_elements(request, field, told, denied(of))
        del told
        await rights.free(refused)
        response = await serve(request) if serves else rights.empty_response(request)
        code: int = getattr(response, "error_code", 0)
        if response is not None and not code:
            rights.insert(response, request, field, answers, is_first=is_first)
        return response

    text = f"{operation.name} on each {_NAMES[of]}"
    if instead is not None:
        text = f"{instead.name} on the cluster, or {text}"
    return Right(text, check)


def _named(field: str) -> Callable[[Any], str | None]:
    """The name of an element, which is in this field unless the element is the name."""
    return lambda element: element if isinstance(element, str) else getattr(element, field)


def shown(
    field: str, operation: AclOperation, of: ResourceType, *, named: str, instead: AclOperation
) -> Right:
    """Nothing, but only elements on which the client has an operation are listed.

    ``instead`` is an operation on the cluster that shows all.
    """

    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        response = await serve(request)
        if not rights.may_on_cluster(instead, tells_denied=False):
            await rights.keep_seen(response, field, operation, of, named)
        return response

    text = f"{instead.name} on the cluster for every {_NAMES[of]}, "
    return Right(text + f"otherwise {operation.name} on each {_NAMES[of]} that is listed", check)


def operations(field: str, of: ResourceType, *, named: str, told: str) -> Right:
    """Nothing, but the response tells what the client may do to each element, if it has asked."""

    async def check(request: Any, rights: "Authorization", serve: Serve) -> Any:
        response = await serve(request)
        await rights.tell_operations(getattr(response, field), of, named, told)
        return response

    return Right("", check)


def needs(rights: tuple[Right, ...]) -> str:
    """What an API needs, as docs/SECURITY.md says it."""
    return ", and ".join(one.needs for one in rights if one.needs)
