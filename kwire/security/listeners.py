"""The protection of each listener: its SASL mechanisms and logins, and its TLS.

Rules:

- Everything is loaded when the broker starts, so that a missing file or a wrong JAAS line stops the
  start.
- After a renewal of keys or certificates, new connections use the new ones (``own_keys``).
- The code of a SASL mechanism is imported only if a listener enables the mechanism.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_bytes, token_urlsafe
from typing import TYPE_CHECKING

from kwire.clock import steady_clock_ms
from kwire.config.broker import BrokerConfig
from kwire.config.extras import needs
from kwire.config.listener_settings import (
    SCRAM,
    UNSECURED_VALIDATOR,
    ListenerSettings,
)
from kwire.config.settings import ConfigError
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.scram import Credentials, ScramCredential
from kwire.security.jaas_settings import JAAS, jaas_line
from kwire.security.login import Login
from kwire.security.sasl import Exchange, NewExchange

if TYPE_CHECKING:
    from kwire.security.oauth import TokenRules, Verify
    from kwire.security.own_keys import OwnKeys
    from kwire.security.scram import Unknown
    from kwire.security.tls import Tls
    from kwire.security.token_logins import TokenLogins

log = logging.getLogger(__name__)

REAUTHENTICATION = "connections.max.reauth.ms"


class ListenerSecurity:
    """The protection of one listener of ``config``. ``image`` returns the current metadata."""

    def __init__(
        self,
        name: str,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        steady_ms: Callable[[], int] = steady_clock_ms,
    ) -> None:
        self.name = name
        self._config = config
        self.settings = settings = config.of_listener(name)
        self._image = image
        self._steady_ms = steady_ms
        self._keys: OwnKeys[Tls] | None = self._read_keys() if settings.is_tls else None
        self._secret = token_bytes(32)
        self._unknown: dict[str, tuple[Credentials, Unknown]] = {}
        self._tokens = self._token_logins()
        self._mechanisms: dict[str, NewExchange] = {}
        if settings.is_sasl:
            for mechanism in settings.mechanisms:
                self._mechanisms[mechanism] = self._new_exchange(mechanism)
        self._max_session_ms = {
            mechanism: settings.of_mechanism(mechanism).integer(REAUTHENTICATION)
            for mechanism in self._mechanisms
        }

    def login(self) -> Login | None:
        """Start the login of a new connection; None on a listener without SASL."""
        if not self._mechanisms:
            return None
        return Login(self._mechanisms, self._max_session_ms)

    def tls(self, now_s: float) -> "Tls | None":
        """The TLS for a new connection; None on a listener without TLS."""
        return None if self._keys is None else self._keys.current(now_s)

    def _read_keys(self) -> "OwnKeys[Tls]":
        from kwire.security.own_keys import OwnKeys
        from kwire.security.tls import Tls

        return OwnKeys(self.name, self._config, self._dynamic, Tls)

    def _dynamic(self) -> Mapping[str, str]:
        node_id = str(self._config["node.id"])
        return self._image().config(ConfigResourceType.BROKER, node_id)

    @property
    def mechanisms(self) -> Mapping[str, NewExchange]:
        """What begins a login, by SASL mechanism; none on a listener without SASL."""
        return self._mechanisms

    @property
    def max_login_bytes(self) -> int:
        """The largest request that a client may send before it has logged in."""
        return self.settings.integer("sasl.server.max.receive.size")

    def _new_exchange(self, mechanism: str) -> NewExchange:
        """Return the function that makes the exchanges of a mechanism; ConfigError."""
        if mechanism == "PLAIN":
            from kwire.security.plain import PlainExchange, users_of

            line = jaas_line(self.settings, mechanism)
            if line is None:
                raise _no_line(self.settings, mechanism)
            return partial(PlainExchange, users_of(line))
        if mechanism in SCRAM:
            return partial(self._scram, mechanism)
        if mechanism == "GSSAPI":
            from kwire.security.kerberos import kerberos_exchanges

            return kerberos_exchanges(self.settings)
        from kwire.security.oauth import OauthExchange

        settings = self.settings.of_mechanism(mechanism)
        return partial(OauthExchange, _verify(settings, self._steady_ms), _token_rules(settings))

    def _scram(self, mechanism: str) -> Exchange:
        from kwire.security.scram import ScramExchange, Unknown

        credentials = self._image().scram_credentials

        def lookup(user: str) -> ScramCredential | None:
            return credentials.get((mechanism, user))

        seen, unknown = self._unknown.get(mechanism, (None, None))
        if unknown is None or seen is not credentials:
            unknown = Unknown.among(credentials, mechanism, self._secret)
            self._unknown[mechanism] = credentials, unknown
        nonce = token_urlsafe(24)
        return ScramExchange(mechanism, lookup, nonce, unknown, self._tokens)

    def _token_logins(self) -> "TokenLogins | None":
        """The logins by delegation token; None if they are not enabled."""
        secret_key = self._config["delegation.token.secret.key"]
        if not secret_key or not self.settings.is_sasl:
            return None
        from kwire.security.token_logins import TokenLogins

        assert isinstance(secret_key, str)
        return TokenLogins(secret_key, lambda: self._image().tokens)


def _verify(settings: ListenerSettings, steady_ms: Callable[[], int]) -> "Verify":
    """Return the function that verifies OAuth tokens; ConfigError."""
    from kwire.security.oauth import signed, unsecured

    if _takes_unsigned(settings):
        log.warning("the listener %s accepts tokens that nobody signed", settings.name)
        return unsecured
    name = "sasl.oauthbearer.jwks.endpoint.url"
    url = settings.text(name)
    if not url:
        problem = "must name the public keys that tokens are checked with, as https: or file: URL"
        raise settings.error(name, None, problem)
    try:
        from kwire.security.jwks import Jwks, KeysUnreadable
    except ImportError:
        problem = needs("security", "PyJWT", "cryptography")
        raise settings.error(name, url, problem) from None
    refresh_s = settings.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000
    try:
        return signed(Jwks(url, refresh_s, steady_ms=steady_ms).key)
    except KeysUnreadable as error:
        raise settings.error(name, url, str(error)) from None


def _takes_unsigned(settings: ListenerSettings) -> bool:
    """Whether a listener takes tokens that nobody signed, whatever keys other listeners have."""
    return settings["sasl.server.callback.handler.class"] == UNSECURED_VALIDATOR


def _token_rules(settings: ListenerSettings) -> "TokenRules":
    """What a token must say; ConfigError."""
    from kwire.security.oauth import TokenRules

    issuer, audience = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
    any_issuer = "sasl.oauthbearer.allow.unverified.issuer"
    any_audience = "sasl.oauthbearer.allow.unverified.audience"
    return TokenRules(
        settings.text(issuer) if _is_expected(settings, issuer, any_issuer) else "",
        settings.strings(audience) if _is_expected(settings, audience, any_audience) else (),
        settings.text("sasl.oauthbearer.sub.claim.name"),
        settings.integer("sasl.oauthbearer.clock.skew.seconds"),
    )


def _is_expected(settings: ListenerSettings, name: str, unverified: str) -> bool:
    """Whether a claim has to be as a setting expects; ConfigError if it expects nothing.

    A token that somebody signed must say who issued it and for whom, unless a setting waives that:
    the keys of an identity provider sign the tokens of its other services, too. ``unverified``
    names that setting.
    """
    if settings[unverified]:
        return False
    if not settings[name] and not _takes_unsigned(settings):
        problem = f"must be set, or {unverified}=true"
        raise settings.error(name, None, problem)
    return True


def _no_line(settings: ListenerSettings, mechanism: str) -> ConfigError:
    name = f"listener.name.{settings.name.lower()}.{mechanism.lower()}.{JAAS}"
    problem = (
        "must have the users of PLAIN, as in org.apache.kafka.common.security.plain."
        'PlainLoginModule required user_alice="…";'
    )
    return ConfigError(name, None, problem)


def secured_listeners(
    config: BrokerConfig,
    image: Callable[[], MetadataImage],
    steady_ms: Callable[[], int] = steady_clock_ms,
) -> dict[str, ListenerSecurity]:
    """The protection of every listener that isn't PLAINTEXT; ConfigError."""
    names = config.secured_listeners
    return {name: ListenerSecurity(name, config, image, steady_ms) for name in names}
