"""Kafka's client properties, with which a kwire command connects to a secured listener.

Rules:

- The file has the format of Kafka's ``--command-config``: ``security.protocol``, ``sasl.…``,
  ``ssl.…``, and references like ``${file:…}``, which ``config.providers`` resolve. Settings for
  producers and consumers are ignored. An unknown setting whose name begins with ``ssl.`` or
  ``sasl.`` is an error, because a misspelled one would leave the connection unprotected.
- A file that holds a secret and that every user of the machine may read is refused.
- An error names the file, the setting, its value and the allowed values. It never shows a secret.

Source: CommonClientConfigs, SslConfigs, SaslConfigs of Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kwire.budget.thread_pool import ThreadPool
from kwire.client.peer import OpenStream, open_tcp
from kwire.client.secured import Credentials, open_secured
from kwire.config.listener_settings import (
    MECHANISMS,
    PROTOCOLS,
    ListenerSettings,
    check_tls_values,
)
from kwire.config.properties import parse_properties
from kwire.config.providers import resolved
from kwire.config.secret_files import UnsafeFile, holds_secret, read_public, read_secret
from kwire.config.settings import BROKER, ConfigError, Value, settings
from kwire.security.among_brokers import DERIVATIONS
from kwire.security.own_logins import login_of

PROTOCOL, MECHANISM = "security.protocol", "sasl.mechanism"
_OWN = {PROTOCOL, MECHANISM, "client.id", "bootstrap.servers"}
_SECURITY = ("ssl.", "sasl.", "security.")
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_JAVA = {
    "sasl.login.callback.handler.class": _OAUTH,
    "sasl.client.callback.handler.class": "",
    "sasl.login.class": "",
    "ssl.engine.factory.class": "",
    "ssl.provider": "",
    "security.providers": "",
}
"""Settings that name a Java class, each with the class whose behavior kwire has built in."""


class ClientProperties(NamedTuple):
    """The settings of a file that matter for the connection; "" for a missing one."""

    open_stream: OpenStream
    bootstrap_servers: str
    client_id: str


class ClientFileError(ValueError):
    """A client properties file can't be used. The text is one line: the file and the reason."""


def read_client_properties(name: str) -> ClientProperties:
    """Read the settings of a connection from a file of client properties; ClientFileError."""
    try:
        given = parse_properties(read_public(name, may_be_pipe=True).decode("utf-8", "replace"))
        if holds_secret(given):
            read_secret(name, may_be_pipe=True)
        given = resolved(given)
        return ClientProperties(
            opener(given), given.get("bootstrap.servers", ""), given.get("client.id", "")
        )
    except UnsafeFile as error:
        raise ClientFileError(f"--command-config: {error}") from None
    except ConfigError as error:
        raise ClientFileError(f"{name}: {error}") from None


def opener(given: Mapping[str, str]) -> OpenStream:
    """Return the function that opens connections as the client properties say.

    All references in them must be resolved already. Raises ConfigError.
    """
    protocol = given.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(PROTOCOL, protocol, f"must be one of {', '.join(PROTOCOLS)}")
    values: dict[str, Value] = {}
    known = settings(BROKER)
    for name, text in given.items():
        _check_name(name, text)
    for name, setting in known.items():
        if name.startswith(_SECURITY):
            values[name] = _value(name, given.get(name, setting.default))
    found = ListenerSettings("CLIENT", protocol, values, {})
    check_tls_values(found)
    if protocol == "PLAINTEXT":
        return open_tcp
    context = None
    if found.is_tls:
        from kwire.security.tls import client_context

        context = client_context(found)
    login = _login(found, given) if found.is_sasl else None
    return open_secured(context, login, ThreadPool(DERIVATIONS).run)


def _check_name(name: str, text: str) -> None:
    """Raise ConfigError for a security setting that is unknown or needs Java classes."""
    if name in _JAVA:
        if text.strip() not in ("", _JAVA[name]):
            raise ConfigError(name, text, "kwire loads no Java classes; leave it out")
    elif name.startswith(_SECURITY) and name not in _OWN and name not in settings(BROKER):
        raise ConfigError(name, "(hidden)", "there is no setting of this name")


def _value(name: str, text: str | None) -> Value:
    setting = settings(BROKER)[name]
    try:
        return setting.parse(text)
    except ConfigError as error:
        shown = "(hidden)" if setting.is_sensitive else text
        raise ConfigError(name, shown, error.allowed) from None


def _login(found: ListenerSettings, given: Mapping[str, str]) -> Credentials:
    mechanism = given.get(MECHANISM, "").strip().upper()
    if mechanism not in MECHANISMS:
        allowed = f"must be one of {', '.join(MECHANISMS)}"
        raise ConfigError(MECHANISM, given.get(MECHANISM), allowed)
    return login_of(found, mechanism)
