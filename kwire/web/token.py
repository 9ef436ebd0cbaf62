"""The token with which an administrator logs in at the HTTP port.

``kwire.http.admin.token.file`` names a file with the token. Without it, each start makes a new
token, and ``kwire serve`` prints it. A file that everybody on the machine may read is refused.
"""

import secrets
from typing import NamedTuple

from kwire.config.broker import BrokerConfig
from kwire.config.secret_files import UnsafeFile, read_secret

LEAST = 16


class TokenError(Exception):
    """The token can't be used; the text is one line that says why and what to do."""


class AdminToken(NamedTuple):
    """The token; ``is_new`` says whether this start has made it."""

    text: str
    is_new: bool


def admin_token(config: BrokerConfig) -> AdminToken | None:
    """The token, None if changes are not allowed over HTTP; TokenError."""
    if not config["kwire.http.admin.enable"]:
        return None
    name = config["kwire.http.admin.token.file"]
    if not name:
        return AdminToken(secrets.token_urlsafe(24), is_new=True)
    where = f"kwire.http.admin.token.file={name}"
    try:
        text = read_secret(str(name)).decode().strip()
    except UnsafeFile as error:
        raise TokenError(f"{where}: {error}") from error
    except UnicodeDecodeError as error:
        raise TokenError(f"{where}: it is not UTF-8") from error
    if len(text) < LEAST:
        raise TokenError(f"{where}: the token must have at least {LEAST} characters")
    return AdminToken(text, is_new=False)
