"""DescribeClientQuotas (API key 48): shows client quotas.

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
    int8,
    int16,
    int32,
    string,
)


class ComponentData(Nested):
    """An element of ``components`` in ``DescribeClientQuotasRequest``."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True)


class DescribeClientQuotasRequest(Request, key=48, versions=(0, 1), flexible=1):
    """Shows client quotas."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class EntityData(Nested):
    """An element of ``entity`` in ``EntryData``."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ValueData(Nested):
    """An element of ``values`` in ``EntryData``."""

    key: str = string()
    value: float = float64()


class EntryData(Nested):
    """An element of ``entries`` in ``DescribeClientQuotasResponse``."""

    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(Response, key=48, versions=(0, 1), flexible=1):
    """The answer to ``DescribeClientQuotasRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entries: list[EntryData] | None = array(EntryData, nullable=True)
