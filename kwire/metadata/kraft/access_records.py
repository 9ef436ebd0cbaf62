"""Metadata records of access: ACLs, SCRAM credentials, delegation tokens, client quotas.

Each class has the fields of one record in all its versions, under Kafka's names.
"""

from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    binary,
    boolean,
    float64,
    int8,
    int32,
    int64,
    string,
    uuid,
)


class AccessControlEntryRecord(Schema, versions=(0, 0), flexible=0):
    """An ACL was created."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Schema, versions=(0, 0), flexible=0):
    """An ACL was deleted."""

    id: bytes = uuid()


class UserScramCredentialRecord(Schema, versions=(0, 0), flexible=0):
    """A user got this SCRAM credential."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary()
    stored_key: bytes = binary()
    server_key: bytes = binary()
    iterations: int = int32()


class RemoveUserScramCredentialRecord(Schema, versions=(0, 0), flexible=0):
    """A user's SCRAM credential was deleted."""

    name: str = string()
    mechanism: int = int8()


class DelegationTokenRecord(Schema, versions=(0, 0), flexible=0):
    """A delegation token was created or renewed."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class RemoveDelegationTokenRecord(Schema, versions=(0, 0), flexible=0):
    """A delegation token was deleted."""

    token_id: str = string()


class EntityData(Nested):
    """A part of a quota's entity: its type and its name; None stands for the default entity."""

    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ClientQuotaRecord(Schema, versions=(0, 0), flexible=0):
    """A quota of an entity has this value, or was removed."""

    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()
