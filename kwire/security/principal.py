"""Who a client is: a type and a name, as in ``User:alice``.

Source: org.apache.kafka.common.security.auth.KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from typing import NamedTuple

USER = "User"
"""The type of every principal that kwire makes."""


class Principal(NamedTuple):
    """Who a client is. ACLs name a principal by its text."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""A client that did not authenticate."""


def parse_principal(text: str) -> Principal:
    """The principal of a text as ``User:alice``; the name may hold colons, but isn't empty.

    Raises ValueError for a text of another form.
    """
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)
