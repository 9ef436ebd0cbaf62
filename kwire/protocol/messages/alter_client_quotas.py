"""AlterClientQuotas (API key 49): changes client quotas.

Versions 0 to 1, flexible from 1. Changes by version:

- 1: flexible encoding.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    float64,
    int16,
    int32,
    string,
)


class EntityData(Nested):
    """An element of ``entity``."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class OpData(Nested):
    """An element of ``ops`` in ``AlterClientQuotasRequestEntryData``."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Nested):
    """An element of ``entries`` in ``AlterClientQuotasRequest``."""

    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Request, key=49, versions=(0, 1), flexible=1):
    """Changes client quotas."""

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntryData(Nested):
    """An element of ``entries`` in ``AlterClientQuotasResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Response, key=49, versions=(0, 1), flexible=1):
    """The answer to ``AlterClientQuotasRequest``."""

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
