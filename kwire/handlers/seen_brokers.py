"""The brokers in answers to a client: those of the image that the client can reach."""

from collections.abc import Container
from typing import NamedTuple

from kwire.config.broker import is_every_interface
from kwire.handlers.context import RequestContext


class SeenBroker(NamedTuple):
    """A broker, and the address for this client."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


def seen_brokers(
    context: RequestContext, *, with_fenced: bool = False, remembered: Container[int] = ()
) -> list[SeenBroker]:
    """The brokers that have the listener through which this client came, by node id.

    Fenced brokers are left out, except with ``with_fenced`` or if they are ``remembered``. This
    broker is always in the list, with its advertised address or the address that the client has
    dialed. Workers on the same machine that listen on every interface are at the host that the
    client has dialed.
    """
    own, listener = context.broker.node_id, context.connection.listener
    seen = []
    for node_id, broker in sorted(context.broker.image.brokers.items()):
        if node_id == own:
            host, port = context.advertised_address()
            seen.append(SeenBroker(node_id, host, port, broker.rack, broker.is_fenced))
        elif with_fenced or not broker.is_fenced or node_id in remembered:
            seen += [
                SeenBroker(node_id, _reached(host, context), port, broker.rack, broker.is_fenced)
                for name, host, port in broker.told_endpoints
                if name == listener
            ]
    return seen


def _reached(host: str, context: RequestContext) -> str:
    return context.connection.local_host if is_every_interface(host) else host
