"""The addresses of brokers in answers to a client: of this broker, and of others it can reach.

An address is the advertised one of the client's listener, or the one that the client has dialed.
"""

from collections.abc import Container
from typing import NamedTuple

from kwire.config.broker import is_every_interface
from kwire.handlers.lib.context import RequestContext


class AdvertisedBroker(NamedTuple):
    """A broker, and the address for this client."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


def advertised_address(context: RequestContext) -> tuple[str, int]:
    """Host and port at which this client reaches this broker.

    ``advertised.listeners`` gives them for the client's listener; without that setting, they are
    the address that the client dialed.
    """
    connection = context.connection
    for listener in context.broker.advertised_listeners:
        if listener.name == connection.listener:
            return listener.host, listener.port
    return connection.local_host, connection.local_port


def advertised_brokers(
    context: RequestContext, *, with_fenced: bool = False, remembered: Container[int] = ()
) -> list[AdvertisedBroker]:
    """The brokers that have the listener through which this client came, by node id.

    Fenced brokers are left out, except with ``with_fenced`` or if they are ``remembered``. This
    broker is always in the list, with its advertised address or the address that the client has
    dialed. Workers on the same machine that listen on every interface are at the host that the
    client has dialed.
    """
    own, listener = context.broker.node_id, context.connection.listener
    advertised = []
    for node_id, broker in sorted(context.broker.image.brokers.items()):
        if node_id == own:
            host, port = advertised_address(context)
            advertised.append(AdvertisedBroker(node_id, host, port, broker.rack, broker.is_fenced))
        elif with_fenced or not broker.is_fenced or node_id in remembered:
            advertised += [
                AdvertisedBroker(
                    node_id, _dialed_host(host, context), port, broker.rack, broker.is_fenced
                )
                for name, host, port in broker.told_endpoints
                if name == listener
            ]
    return advertised


def _dialed_host(host: str, context: RequestContext) -> str:
    return context.connection.local_host if is_every_interface(host) else host
