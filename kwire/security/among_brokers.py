"""Connects a broker to the other brokers' listeners that demand TLS or a login.

Rules:

- The broker shows the certificate of its own listener. After a renewal of the certificate, new
  connections use the new one, as the listener does (``own_keys``).
- The broker logs in with the mechanism of ``sasl.mechanism.inter.broker.protocol``, as the user
  that the listener's JAAS line names (``username`` and ``password``). By Kerberos it logs in with
  the key of its listener, by OAUTHBEARER with a token from a file (``own_logins``).

Source: ChannelBuilders.clientChannelBuilder, JaasContext of Kafka.
"""

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.client.peer import OpenStream
from kwire.client.secured import Credentials, NewContext, open_secured
from kwire.config.listener_settings import MECHANISMS, ListenerSettings
from kwire.config.secret_files import UnsafeFile
from kwire.security.own_logins import TOKEN_URL, login_of

if TYPE_CHECKING:
    from kwire.security.own_keys import Configured

DERIVATIONS = 1
"""How many threads derive the keys of SCRAM logins at the same time."""

_MECHANISM = "sasl.mechanism.inter.broker.protocol"


def opener(
    name: str, config: "Configured", dynamic: Callable[[], Mapping[str, str]] = dict
) -> OpenStream:
    """Return the function that opens connections to the other brokers' listener of this name.

    ``config`` are the broker's settings. ``dynamic`` returns the broker's own dynamic configs.
    Raises ConfigError if the settings contradict each other or name unusable files.
    """
    settings = config.of_listener(name)
    context: NewContext | None = None
    if settings.is_tls:
        from kwire.security.own_keys import OwnKeys
        from kwire.security.tls import client_context

        keys = OwnKeys(name, config, dynamic, client_context)

        def current() -> ssl.SSLContext:
            return keys.current(trio.current_time())

        context = current

    credentials = _credentials(settings) if settings.is_sasl else None
    return open_secured(context, credentials, ThreadPool(DERIVATIONS).run)


def _credentials(settings: ListenerSettings) -> Credentials:
    mechanism = settings.text(_MECHANISM).upper()
    served = [name for name in MECHANISMS if name in settings.mechanisms]
    if mechanism not in served:
        problem = (
            f"brokers log in to each other with one of {settings.name}'s mechanisms, "
            f"{', '.join(served)}, and the username and password of its JAAS line; or name a "
            "listener of their own in inter.broker.listener.name, as kwire secure init --brokers "
            "or --workers makes it"
        )
        raise settings.error(_MECHANISM, mechanism, problem)
    try:
        return login_of(settings, mechanism)
    except UnsafeFile as error:
        raise settings.error(TOKEN_URL, "(hidden)", str(error)) from None
