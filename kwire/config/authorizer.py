"""The settings of Kafka's authorizer, which says who may do what."""

from collections.abc import Mapping
from typing import NamedTuple

from kwire.config.values import ConfigError

CLASS_NAME = "authorizer.class.name"

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one value of ``authorizer.class.name`` beside none."""

AUTHORIZER_SETTINGS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Settings that Kafka's authorizer reads, which aren't in the table of Kafka's settings."""


class AuthorizerSettings(NamedTuple):
    """Who may do everything, and whether a resource without any ACL is open to everybody."""

    super_users: frozenset[str]
    allows_without_acl: bool


def authorizer_settings(name: str, given: Mapping[str, str]) -> AuthorizerSettings | None:
    """The settings of the authorizer of this class name; None without one.

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
