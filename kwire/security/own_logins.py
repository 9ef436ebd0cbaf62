"""How the owner of settings logs in at a broker: a command, or a broker at another one.

Rules:

- PLAIN and SCRAM take name and password of the JAAS line, GSSAPI its key or ticket.
- OAUTHBEARER reads a token from the file that ``sasl.oauthbearer.token.endpoint.url`` names, at
  each login: whoever renews the token replaces the file. Without a file the JAAS line says what is
  in a token that nobody signs, as Kafka's options for tests do.

Source: JaasContext, OAuthBearerLoginCallbackHandler of Kafka.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from time import time
from urllib.parse import unquote, urlsplit

from kwire.client.secured import Credentials
from kwire.config.listener_settings import ListenerSettings
from kwire.config.secret_files import UnsafeFile, read_secret
from kwire.security.jaas import JaasLine
from kwire.security.jaas_settings import JAAS, jaas_line, own_login

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
_CLAIM = "unsecuredLoginStringClaim_"
_UNSECURED_S = 3600


def login_of(settings: ListenerSettings, mechanism: str) -> Credentials:
    """The login of these settings with a mechanism that kwire serves; ConfigError, UnsafeFile."""
    if mechanism == "GSSAPI":
        from kwire.security.kerberos_client import kerberos_login

        return kerberos_login(settings)
    if mechanism == "OAUTHBEARER":
        source = _source_of_tokens(settings.of_mechanism(mechanism), mechanism)
        return Credentials(mechanism, token=partial(token_of, *source))
    return own_login(settings, mechanism)


def _source_of_tokens(own: ListenerSettings, mechanism: str) -> tuple[str, JaasLine | None]:
    """The file that tokens are read from, or the JAAS line that unsecured tokens are made of."""
    url = own.text(TOKEN_URL)
    parts = urlsplit(url)
    if url:
        if parts.scheme != "file":
            problem = "kwire reads tokens from files only: file:/path/to/token.jwt"
            raise own.error(TOKEN_URL, url, problem)
        path = unquote(parts.path)
        read_secret(path)
        return path, None
    line = jaas_line(own, mechanism)
    if line is None or f"{_CLAIM}sub" not in line.options:
        problem = f'must name a file with a token (file:/…), or {JAAS} a {_CLAIM}sub="…"'
        raise own.error(TOKEN_URL, None, problem)
    return "", line


def token_of(path: str, line: JaasLine | None) -> str:
    """The token of a login: the file's, or one that nobody signed; OSError."""
    if line is None:
        try:
            return read_secret(path).decode("ascii", "replace").strip()
        except UnsafeFile as error:
            raise OSError(str(error)) from None
    claims: dict[str, object] = {
        name.removeprefix(_CLAIM): text
        for name, text in line.options.items()
        if name.startswith(_CLAIM)
    }
    now_s = int(time())
    claims |= {"iat": now_s, "exp": now_s + _UNSECURED_S}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(part: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
