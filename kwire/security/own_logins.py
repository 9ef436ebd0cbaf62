"""The login to a broker that settings describe, for a command or another broker.

Rules:

- For PLAIN and SCRAM, the JAAS line has the user name and the password. For GSSAPI it names the key
  or the ticket.
- For OAUTHBEARER, the token is read at each login from the file that
  ``sasl.oauthbearer.token.endpoint.url`` names. A renewed token has to replace the file. Without a
  file, the JAAS line lists the content of a token, which is made without a signature. Kafka has the
  same options, for tests.

Source: JaasContext, OAuthBearerLoginCallbackHandler of Kafka.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from urllib.parse import unquote, urlsplit

from kwire.client.secured import Credentials
from kwire.clock import wall_clock_ms
from kwire.config.listener_settings import ListenerSettings
from kwire.config.secret_files import UnsafeFile, read_secret
from kwire.security.jaas import JaasLine
from kwire.security.jaas_settings import JAAS, jaas_line, own_login

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105
_CLAIM = "unsecuredLoginStringClaim_"
_UNSECURED_S = 3600


def login_of(settings: ListenerSettings, mechanism: str) -> Credentials:
    """The login for these settings by a mechanism that kwire supports; ConfigError, UnsafeFile."""
    if mechanism == "GSSAPI":
        from kwire.security.kerberos_client import kerberos_login

        return kerberos_login(settings)
    if mechanism == "OAUTHBEARER":
        source = _source_of_tokens(settings.of_mechanism(mechanism), mechanism)
        return Credentials(mechanism, token=partial(token_of, *source))
    return own_login(settings, mechanism)


def _source_of_tokens(own: ListenerSettings, mechanism: str) -> tuple[str, JaasLine | None]:
    """The source of tokens: a file, or the JAAS line from which unsigned tokens are made."""
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
    """The token for a login: read from the file, or newly made without a signature; OSError."""
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
    now_s = wall_clock_ms() // 1000
    claims |= {"iat": now_s, "exp": now_s + _UNSECURED_S}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(part: Mapping[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
