"""SASL PLAIN (RFC 4616): the client sends its user name and its password in one message.

The users are options of the listener's JAAS line: ``user_NAME="PASSWORD"``.

Source: PlainSaslServer, PlainServerCallbackHandler of Kafka.
"""

from collections.abc import Mapping
from hmac import compare_digest

from kwire.security.jaas import JaasLine
from kwire.security.principal import USER, Principal
from kwire.security.sasl import (
    MOST_PASSWORD_MESSAGE_BYTES,
    Identity,
    LoginRefused,
    printable,
)

MODULE = "PlainLoginModule"
_PREFIX = "user_"


def users_of(line: JaasLine) -> dict[str, bytes]:
    """The passwords in a JAAS line, by user name."""
    return {
        name.removeprefix(_PREFIX): password.encode()
        for name, password in line.options.items()
        if name.startswith(_PREFIX)
    }


class PlainExchange:
    """One login by PLAIN. ``users`` are the passwords by user name."""

    def __init__(self, users: Mapping[str, bytes]) -> None:
        self._users = users
        self.identity: Identity | None = None

    def step(self, message: bytes, now_ms: int) -> bytes:
        """Check the name and the password."""
        if len(message) > MOST_PASSWORD_MESSAGE_BYTES:
            raise LoginRefused("the PLAIN message is too long")
        try:
            authorization_id, name, password = message.decode().split("\0")
        except ValueError:  # also UnicodeDecodeError
            raise LoginRefused("the PLAIN message isn't three texts in UTF-8") from None
        if not name or not password:
            raise LoginRefused("the PLAIN message has no name or no password")
        expected = self._users.get(name)
        # Compare also for an unknown user, so that the time doesn't tell which users exist. The
        # length of the second argument makes the time: it is the client's own.
        given = password.encode()
        is_right = compare_digest(given if expected is None else expected, given)
        if expected is None or not is_right:
            raise LoginRefused(f"wrong name or password for user {printable(name)}")
        if authorization_id not in ("", name):
            raise LoginRefused(f"user {printable(name)} asks for another authorization id")
        self.identity = Identity(Principal(USER, name))
        return b""
