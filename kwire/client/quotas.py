"""Client quotas: how much users, client ids and addresses may use; describe and alter."""

from collections.abc import Mapping
from typing import TypeAlias

from kwire.client.cluster import Cluster
from kwire.client.errors import error_of
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from kwire.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types with names, by type: user, client-id, ip. The name None stands for all without a quota of
their own."""

_EXACT, _DEFAULT = 0, 1


async def describe_quotas(
    cluster: Cluster, entity: Mapping[str, str | None]
) -> dict[Entity, dict[str, float]]:
    """The quotas by entity, of all entities that have these types and names; KafkaError."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(
                entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
            )
            for kind, name in entity.items()
        ],
        strict=False,
    )
    answer = await cluster.ask(request, DescribeClientQuotasResponse)
    error = error_of(answer.error_code, answer.error_message, "the quotas")
    if error is not None:
        raise error
    found = {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)
        }
        for entry in answer.entries or ()
    }
    return dict(
        sorted(found.items(), key=lambda item: [(kind, name or "") for kind, name in item[0]])
    )


async def alter_quotas(
    cluster: Cluster,
    entity: Mapping[str, str | None],
    values: Mapping[str, float | None],
    *,
    only_checks: bool = False,
) -> None:
    """Set quotas of one entity, or remove them (None); KafkaError."""
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
                ],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
        ],
        validate_only=only_checks,
    )
    answer = await cluster.ask(request, AlterClientQuotasResponse)
    for row in answer.entries:
        error = error_of(row.error_code, row.error_message, "the quotas")
        if error is not None:
            raise error
