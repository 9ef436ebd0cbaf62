"""The settings of one listener: its protocol, and values that apply to this listener only.

Rules:

- ``listener.name.NAME.SETTING`` overrides ``SETTING`` for the listener NAME (in lower case).
  ``listener.name.NAME.MECHANISM.SETTING`` overrides both for one SASL mechanism of the listener.
- A secured listener works exactly as its settings say, or the broker doesn't start: a value that
  kwire doesn't support raises ConfigError.
- An error text never contains a value that may be a secret.

Source: ListenerName.configPrefix, ListenerName.saslMechanismConfigPrefix, KafkaConfig of Kafka.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kwire.config.settings import BROKER, ConfigError, Value, settings
from kwire.config.without_effect import PREFIX

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI")
"""The SASL mechanisms that kwire supports."""

_PREFIXED = (
    *("ssl.", "sasl.", "connections.max.reauth.ms", "principal.builder.class"),
    *("max.connection.creation.rate", "max.connections"),
)
_KEYSTORES = ("PEM", "PKCS12", "JKS")
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
UNSECURED_VALIDATOR = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
"""The class that a listener's settings must name to accept tokens without a signature."""

_UNSERVED = (
    (
        "principal.builder.class",
        ("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",),
    ),
    ("ssl.engine.factory.class", ()),
    ("ssl.provider", ()),
    ("sasl.server.callback.handler.class", (_VALIDATOR, UNSECURED_VALIDATOR)),
)
"""Settings that name a Java class for security, each with the class whose behavior kwire has built
in."""


class Named(Protocol):
    """A listener, for code that only needs its name."""

    @property
    def name(self) -> str:
        """The name in upper case."""


class Listening(Protocol):
    """A broker's settings, for code that looks for one of its listeners."""

    given: Mapping[str, str]

    def __getitem__(self, name: str) -> Value:
        """A setting."""

    def listeners(self) -> Sequence[Named]:
        """The listeners."""

    def security_protocol(self, listener: str) -> str:
        """The protocol of a listener."""

    def of_listener(self, name: str) -> "ListenerSettings":
        """The settings of a listener."""


class ListenerSettings(Mapping[str, Value]):
    """All broker settings as they apply to one listener, or to one SASL mechanism of it."""

    def __init__(
        self,
        name: str,
        protocol: str,
        base: Mapping[str, Value],
        prefixed: Mapping[str, str],
        prefix: str = "",
    ) -> None:
        self.name = name
        self.protocol = protocol
        self._base = base
        self._prefixed = prefixed
        self._prefix = prefix or f"{PREFIX}{name.lower()}."

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def is_sasl(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")

    def of_mechanism(self, mechanism: str) -> "ListenerSettings":
        """The settings of one SASL mechanism."""
        prefix = f"{self._prefix}{mechanism.lower()}."
        return ListenerSettings(self.name, self.protocol, self, self._prefixed, prefix)

    def full_name(self, name: str) -> str:
        """The name under which a setting was given: with its prefix, if it has one."""
        if self._prefix + name in self._prefixed:
            return self._prefix + name
        return self._base.full_name(name) if isinstance(self._base, ListenerSettings) else name

    def __getitem__(self, name: str) -> Value:
        text = self._prefixed.get(self._prefix + name)
        return self._base[name] if text is None else settings(BROKER)[name].parse(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self._base)

    def __len__(self) -> int:
        return len(self._base)

    def text(self, name: str) -> str:
        """A setting of text, empty if it is null."""
        value = self[name]
        return "" if value is None else str(value)

    def strings(self, name: str) -> list[str]:
        """A LIST setting; empty if it is null."""
        value = self[name]
        return value if isinstance(value, list) else []

    def integer(self, name: str) -> int:
        """A SHORT, INT or LONG setting that is never null."""
        value = self[name]
        assert isinstance(value, int)
        return value

    @property
    def mechanisms(self) -> list[str]:
        """The SASL mechanisms that clients may use, in upper case."""
        return [name.strip().upper() for name in self.strings("sasl.enabled.mechanisms")]

    def error(self, name: str, value: object, problem: str) -> ConfigError:
        """The error about a setting of this listener, by the name under which it was given."""
        return ConfigError(self.full_name(name), value, problem)


def prefixed_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The settings of single listeners, checked: name with prefix → text; ConfigError."""
    found = {}
    known = settings(BROKER)
    for name, text in properties.items():
        if not name.startswith(PREFIX):
            continue
        _, _, rest = name.removeprefix(PREFIX).partition(".")
        mechanism, _, base = rest.partition(".")
        if mechanism.upper() not in MECHANISMS:
            base = rest
        if base not in known or not base.startswith(_PREFIXED):
            continue
        setting = known[base]
        try:
            setting.parse(text)
        except ConfigError as error:
            shown = "(hidden)" if setting.is_sensitive else text
            raise ConfigError(name, shown, error.allowed) from None
        listener = name[len(PREFIX) : -len(rest) - 1].lower()
        found[f"{PREFIX}{listener}.{rest}"] = text
    return found


def check_listener(listener: ListenerSettings) -> None:
    """Raise ConfigError if kwire can't protect a listener as its settings ask for."""
    for name, served in _UNSERVED:
        if name.startswith("sasl.") and not listener.is_sasl:
            continue
        for one in (listener, *map(listener.of_mechanism, MECHANISMS)):
            value = one[name]
            if value and value not in served:
                raise one.error(name, value, "kwire loads no Java classes; leave it out")
    if listener.is_tls:
        _check_tls(listener)
    if listener.is_sasl:
        _check_sasl(listener)


def _check_tls(listener: ListenerSettings) -> None:
    check_tls_values(listener)
    has_inline = listener["ssl.keystore.key"] and listener["ssl.keystore.certificate.chain"]
    if not listener["ssl.keystore.location"] and not has_inline:
        name = f"{PREFIX}{listener.name.lower()}.ssl.keystore.location"
        problem = (
            f"the listener {listener.name} is {listener.protocol} and needs a certificate: name a "
            "file (ssl.keystore.type=PEM or PKCS12), or give it in ssl.keystore.certificate.chain "
            "and ssl.keystore.key"
        )
        raise ConfigError(name, None, problem)


def check_tls_values(settings: ListenerSettings) -> None:
    """Raise ConfigError for kinds of stores and versions of TLS that kwire doesn't know."""
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        kind = settings.text(name).upper()
        if kind not in _KEYSTORES:
            raise settings.error(name, kind, f"must be one of {', '.join(_KEYSTORES)}")
    for version in settings.strings("ssl.enabled.protocols"):
        if version not in ("TLSv1.2", "TLSv1.3"):
            problem = "kwire speaks TLSv1.2 and TLSv1.3 only"
            raise settings.error("ssl.enabled.protocols", version, problem)


def _check_sasl(listener: ListenerSettings) -> None:
    mechanisms = listener.mechanisms
    if not mechanisms:
        problem = f"must name some of {', '.join(MECHANISMS)}"
        raise listener.error("sasl.enabled.mechanisms", "", problem)
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            problem = f"{mechanism} is not served; name some of {', '.join(MECHANISMS)}"
            shown = ",".join(mechanisms)
            raise listener.error("sasl.enabled.mechanisms", shown, problem)


def check_inter_broker(config: Listening) -> None:
    """Raise ConfigError unless the inter-broker listener exists and kwire can secure it."""
    name = config["inter.broker.listener.name"]
    if name is None:
        return
    if "security.inter.broker.protocol" in config.given:
        problem = "only one of it and inter.broker.listener.name may be set"
        protocol = config["security.inter.broker.protocol"]
        raise ConfigError("security.inter.broker.protocol", protocol, problem)
    if str(name).upper() not in {listener.name for listener in config.listeners()}:
        raise ConfigError("inter.broker.listener.name", name, "must be one of the listeners")


def inter_broker_listener(config: Listening) -> ListenerSettings:
    """The listener on which brokers connect to each other.

    It is the listener that ``inter.broker.listener.name`` names. Without that setting, it is the
    first listener with the protocol of ``security.inter.broker.protocol``, or else the first of
    all.
    """
    listeners = config.listeners()
    name = config["inter.broker.listener.name"]
    if name is not None:
        return config.of_listener(str(name).upper())
    wanted = str(config["security.inter.broker.protocol"])
    if "security.inter.broker.protocol" in config.given:
        for listener in listeners:
            if config.security_protocol(listener.name) == wanted:
                return config.of_listener(listener.name)
        problem = "must be the protocol of one of the listeners"
        raise ConfigError("security.inter.broker.protocol", wanted, problem)
    return config.of_listener(listeners[0].name)
