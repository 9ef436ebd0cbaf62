"""The metadata changes for access: SCRAM credentials, delegation tokens, ACLs, client quotas.

``kwire.metadata.changes`` calls this module for the kinds of changes in ``ACCESS``.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from kwire.metadata.acls import (
    AclsCreated,
    AclsDeleted,
    apply_acls,
    bindings_from_json,
    in_changes,
    size_of_acls,
)
from kwire.metadata.image import MetadataImage
from kwire.metadata.quotas import ClientQuotaChanged, apply_quota, quota_changes, quota_difference
from kwire.metadata.scram import (
    ScramCredentialChanged,
    change_credential,
    changed_from_json,
    credential_changes,
    credential_to_json,
)
from kwire.metadata.tokens import (
    TokenChanged,
    change_token,
    size_of_token,
    token_changes,
    token_from_json,
    token_to_json,
)

AccessChange: TypeAlias = (
    AclsCreated | AclsDeleted | ScramCredentialChanged | TokenChanged | ClientQuotaChanged
)

ACCESS = (AclsCreated, AclsDeleted, ScramCredentialChanged, TokenChanged, ClientQuotaChanged)

ACCESS_KINDS = {kind.__name__ for kind in ACCESS}
"""The names of these kinds in a metadata store."""

CREDENTIAL_BYTES = 300


def size_of_access(change: AccessChange) -> int:
    """About how many bytes a change takes in a store, in addition to those of an empty change."""
    if isinstance(change, ScramCredentialChanged):
        return CREDENTIAL_BYTES + len(change.user)
    if isinstance(change, ClientQuotaChanged):
        return sum(len(kind) + len(name or "") for kind, name in change.entity)
    if isinstance(change, TokenChanged):
        return size_of_token(change)
    return size_of_acls(change)


def mapping_of(change: AccessChange) -> str:
    """The name of the mapping of the image that a change alters."""
    return _MAPPINGS.get(type(change), "acls")


_MAPPINGS: dict[type, str] = {
    ScramCredentialChanged: "scram_credentials",
    TokenChanged: "tokens",
    ClientQuotaChanged: "client_quotas",
}


def apply_access(mapping: dict[Any, Any], change: AccessChange) -> None:
    """Apply a change to its mapping."""
    if isinstance(change, ScramCredentialChanged):
        change_credential(mapping, change)
    elif isinstance(change, ClientQuotaChanged):
        apply_quota(mapping, change)
    elif isinstance(change, TokenChanged):
        change_token(mapping, change)
    else:
        apply_acls(mapping, change)


def access_snapshot(image: MetadataImage) -> list[AccessChange]:
    """The changes that turn an empty image into this one, as far as access is concerned."""
    return [
        *in_changes(AclsCreated, image.acls),
        *credential_changes(image.scram_credentials),
        *quota_changes(image.client_quotas),
        *token_changes(image.tokens),
    ]


def access_difference(old: MetadataImage, new: MetadataImage) -> Iterator[AccessChange]:
    """The changes from ``old`` to ``new``."""
    if old.acls is not new.acls:
        yield from in_changes(AclsDeleted, (acl for acl in old.acls if acl not in new.acls))
        yield from in_changes(AclsCreated, (acl for acl in new.acls if acl not in old.acls))
    if old.client_quotas is not new.client_quotas:
        yield from quota_difference(old.client_quotas, new.client_quotas)
    before, after = old.scram_credentials, new.scram_credentials
    if before is not after:
        for mechanism, user in {**before, **after}:
            key = mechanism, user
            if before.get(key) != after.get(key):
                yield ScramCredentialChanged(mechanism, user, after.get(key))
    if old.tokens is not new.tokens:
        for token_id in {**old.tokens, **new.tokens}:
            if old.tokens.get(token_id) != new.tokens.get(token_id):
                yield TokenChanged(token_id, new.tokens.get(token_id))


def access_fields(change: AccessChange) -> dict[str, Any]:
    """The fields of a change as a store keeps them."""
    fields: dict[str, Any] = change._asdict()
    if isinstance(change, ScramCredentialChanged):
        fields["credential"] = credential_to_json(change.credential)
    elif isinstance(change, TokenChanged):
        fields["token"] = token_to_json(change.token)
    return fields


def access_from_json(kind: str, item: dict[str, Any]) -> AccessChange:
    """The change with these fields; ValueError, TypeError or LookupError if they are wrong."""
    if kind == "ScramCredentialChanged":
        return changed_from_json(**item)
    if kind == "ClientQuotaChanged":
        item["entity"] = tuple((one, name) for one, name in item["entity"])
        return ClientQuotaChanged(**item)
    if kind == "TokenChanged":
        return token_from_json(**item)
    acls = bindings_from_json(item["acls"])
    return AclsCreated(acls) if kind == "AclsCreated" else AclsDeleted(acls)
