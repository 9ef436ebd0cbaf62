"""A principal: the identity of a client, written as ``User:alice``.

Names come from tokens, certificates and tickets, which can carry more than Kafka's messages can. So
who has proved a name is refused if no message could carry it
(``kwire.protocol.wire.problem_of_string``): it would be in the metadata, and no broker could tell
it to anybody.

Source: org.apache.kafka.common.security.auth.KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from typing import NamedTuple

USER = "User"
"""The type of all principals that kwire creates."""


class Principal(NamedTuple):
    """The identity of a client: a type and a name. ACLs refer to it as ``type:name``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a client that has not authenticated."""


def parse_principal(text: str) -> Principal:
    """Parse a text like ``User:alice``.

    The name may contain colons, but must not be empty. Raises ValueError for a text of another
    form.
    """
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)
