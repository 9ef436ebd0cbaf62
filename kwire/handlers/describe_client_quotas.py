"""DescribeClientQuotas: the quotas of the entities that a filter matches (KIP-546).

Behavior: a filter names types of entities, each with one name, the default, or any name. An entity
matches if it has all of these types, and with ``strict`` no other types. A filter without types
matches every entity.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE_CONFIGS, once
from kwire.handlers.lib.slices import give_way, pieces
from kwire.metadata.quotas import CLIENT_ID, IP, USER, Filter, canonical
from kwire.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2
"""How a part of a filter matches names (DescribeClientQuotasRequest of Kafka)."""

BYTES = 80


RIGHTS = (once(DESCRIBE_CONFIGS, entries=None),)


async def handle(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    """Describe the entities that the filter matches."""
    work = context.work
    response = DescribeClientQuotasResponse(error_message="", entries=[])
    try:
        asked = _filter(request)
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
        response.entries = None
        return response
    entries = response.entries = []
    for piece in pieces(list(context.broker.image.client_quotas.items())):
        await give_way(work)
        found = [one for one in piece if asked.matches(one[0])]
        await give_way(work)
        for entity, values in found:
            work.answer(BYTES * (1 + len(values)) + sum(len(name or "") for _, name in entity))
            told = EntryData()
            told.entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            told.values = [ValueData(key=key, value=value) for key, value in values.items()]
            entries.append(told)
    return response


def _filter(request: DescribeClientQuotasRequest) -> Filter:
    """The filter of a request; KafkaError if the filter is invalid."""
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for part in request.components:
        kind = part.entity_type
        if not kind:
            raise _refusal("Invalid empty entity type.")
        if kind in names or kind in types:
            raise _refusal(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            text = f"Unsupported entity type {kind}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        _check_component(part)
        if part.match_type == ANY:
            types.add(kind)
        else:
            names[kind] = canonical(kind, part.match)
    asked = names.keys() | types
    if IP in asked and len(asked) > 1:
        raise _refusal(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return Filter(names, frozenset(types), request.strict)


def _check_component(part: ComponentData) -> None:
    """Raise KafkaError if a part of a filter contradicts itself."""
    if part.match_type not in (EXACT, DEFAULT, ANY):
        raise _refusal(f"Unknown match type {part.match_type}")
    if part.match_type == EXACT and part.match is None:
        raise _refusal("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if part.match_type != EXACT and part.match is not None:
        name = "MATCH_TYPE_DEFAULT" if part.match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise _refusal(f"Request specified {name}, but also specified a match string.")


def _refusal(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
