"""The settings of Kafka's authorizer, which decides who may do what."""

from collections.abc import Mapping
from typing import NamedTuple

from kwire.config.values import ConfigError

CLASS_NAME = "authorizer.class.name"

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only class that ``authorizer.class.name`` may name."""

AUTHORIZER_SETTINGS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Settings that only Kafka's authorizer reads, so Kafka's table of settings doesn't have them."""


class AuthorizerSettings(NamedTuple):
    """The super users, and whether all clients may use a resource that has no ACL."""

    super_users: frozenset[str]
    allows_without_acl: bool


def authorizer_settings(name: str, given: Mapping[str, str]) -> AuthorizerSettings | None:
    """The settings of the authorizer with this class name; None if there is none.

    ``given`` has the texts of the user's settings. Raises ConfigError.
    """
    if not name:
        return None
    if name != STANDARD_AUTHORIZER:
        raise ConfigError(CLASS_NAME, name, f"must be {STANDARD_AUTHORIZER}, or empty")
    users = given.get("super.users", "").split(";")
    super_users = frozenset(user.strip() for user in users if user.strip())
    for user in super_users:
        if not all(user.partition(":")):
            problem = "must name principals as in User:admin;User:operator"
            raise ConfigError("super.users", user, problem)
    everyone = given.get("allow.everyone.if.no.acl.found", "")
    return AuthorizerSettings(super_users, everyone.strip().lower() == "true")
