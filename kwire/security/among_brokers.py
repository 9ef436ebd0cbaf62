"""How a broker connects to the other brokers' listeners that demand TLS or a login.

The broker shows the certificate of its own listener. It logs in with the mechanism of
``sasl.mechanism.inter.broker.protocol``, as the user that the listener's JAAS line names
(``username`` and ``password``).

Source: ChannelBuilders.clientChannelBuilder, JaasContext of Kafka.
"""

from kwire.budget.kind import Kind
from kwire.client.peer import OpenStream
from kwire.client.secured import Credentials, open_secured
from kwire.config.listener_settings import SCRAM, ListenerSettings
from kwire.security.jaas_settings import own_login

DERIVATIONS = 1
"""How many threads derive the keys of SCRAM logins at the same time."""

_MECHANISM = "sasl.mechanism.inter.broker.protocol"


def opener(settings: ListenerSettings) -> OpenStream:
    """Return the function that opens connections to other brokers' listeners.

    Raises ConfigError if the settings contradict each other or name unusable files.
    """
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
