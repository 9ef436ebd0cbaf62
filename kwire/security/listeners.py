"""What protects each listener: who may log in there, and the TLS that its connections speak.

Rules:

- It is made when the broker starts, so that a missing file or a wrong JAAS line stops the start.
- The modules of a mechanism are imported if a listener uses it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from secrets import token_bytes, token_urlsafe

from kwire.config.listener_settings import SCRAM, ListenerSettings
from kwire.config.settings import ConfigError
from kwire.metadata.image import MetadataImage
from kwire.metadata.scram import ScramCredential
from kwire.security.jaas import JaasError, JaasLine, parse_jaas
from kwire.security.login import Login
from kwire.security.sasl import Exchange, NewExchange

JAAS = "sasl.jaas.config"
REAUTHENTICATION = "connections.max.reauth.ms"


class ListenerSecurity:
    """What protects one listener; ``image`` gives the metadata that is in force."""

    def __init__(self, settings: ListenerSettings, image: Callable[[], MetadataImage]) -> None:
        self.settings = settings
        self._image = image
        self._secret = token_bytes(32)
        self._mechanisms: dict[str, NewExchange] = {}
        if settings.is_sasl:
            for mechanism in settings.mechanisms:
                self._mechanisms[mechanism] = self._new_exchange(mechanism)
        self._max_session_ms = {
            mechanism: settings.of_mechanism(mechanism).integer(REAUTHENTICATION)
            for mechanism in self._mechanisms
        }

    def login(self) -> Login | None:
        """The login of a new connection; None on a listener without SASL."""
        if not self._mechanisms:
            return None
        return Login(self._mechanisms, self._max_session_ms)

    @property
    def max_login_bytes(self) -> int:
        """How large a request may be before its client has logged in."""
        return self.settings.integer("sasl.server.max.receive.size")

    def _new_exchange(self, mechanism: str) -> NewExchange:
        """What makes the exchanges of a mechanism; ConfigError."""
        if mechanism == "PLAIN":
            from kwire.security.plain import PlainExchange, users_of

            line = jaas_line(self.settings, mechanism)
            if line is None:
                raise _no_line(self.settings, mechanism)
            return partial(PlainExchange, users_of(line))
        if mechanism in SCRAM:
            return partial(self._scram, mechanism)
        raise AssertionError(mechanism)

    def _scram(self, mechanism: str) -> Exchange:
        from kwire.security.scram import ScramExchange

        def lookup(user: str) -> ScramCredential | None:
            return self._image().scram_credentials.get((mechanism, user))

        return ScramExchange(mechanism, lookup, token_urlsafe(24), self._secret)


def jaas_line(settings: ListenerSettings, mechanism: str) -> JaasLine | None:
    """The JAAS line of a mechanism; None where there is none. ConfigError never shows it."""
    of_mechanism = settings.of_mechanism(mechanism)
    text = of_mechanism.text(JAAS)
    if not text:
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise of_mechanism.error(JAAS, "(hidden)", str(error)) from None


def _no_line(settings: ListenerSettings, mechanism: str) -> ConfigError:
    name = f"listener.name.{settings.name.lower()}.{mechanism.lower()}.{JAAS}"
    problem = (
        "must have the users of PLAIN, as in org.apache.kafka.common.security.plain."
        'PlainLoginModule required user_alice="…";'
    )
    return ConfigError(name, None, problem)


def secured_listeners(
    listeners: Mapping[str, ListenerSettings], image: Callable[[], MetadataImage]
) -> dict[str, ListenerSecurity]:
    """What protects each of these listeners; ConfigError."""
    return {name: ListenerSecurity(settings, image) for name, settings in listeners.items()}
