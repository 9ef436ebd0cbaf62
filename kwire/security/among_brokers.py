"""How a broker is a client of the other brokers, on a listener with TLS or with a login.

It shows the certificate of its own listener, and logs in as the user of the listener's JAAS line
(``username`` and ``password``), with ``sasl.mechanism.inter.broker.protocol``.

Source: ChannelBuilders.clientChannelBuilder, JaasContext of Kafka.
"""

from kwire.budget.kind import Kind
from kwire.client.peer import OpenStream
from kwire.client.secured import Credentials, open_secured
from kwire.config.listener_settings import SCRAM, ListenerSettings
from kwire.security.jaas_settings import own_login

DERIVATIONS = 1
"""So many threads derive the keys of logins at a time."""

_MECHANISM = "sasl.mechanism.inter.broker.protocol"


def opener(settings: ListenerSettings) -> OpenStream:
    """Opens streams to other brokers' listeners of these settings; ConfigError."""
    context = None
    if settings.is_tls:
        from kwire.security.tls import client_context

        context = client_context(settings)
    credentials = _credentials(settings) if settings.is_sasl else None
    return open_secured(context, credentials, Kind(DERIVATIONS).run)


def _credentials(settings: ListenerSettings) -> Credentials:
    mechanism = settings.text(_MECHANISM).upper()
    served = [name for name in ("PLAIN", *SCRAM) if name in settings.mechanisms]
    if mechanism not in served:
        problem = f"brokers log in with one of the listener's mechanisms: {', '.join(served)}"
        raise settings.error(_MECHANISM, mechanism, problem)
    return own_login(settings, mechanism)
