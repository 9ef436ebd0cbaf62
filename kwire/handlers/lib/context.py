"""A request's surroundings for its handler: the broker, the client, and the connection."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kwire.budget.work import Work
from kwire.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.broker.proposals import Decide
    from kwire.broker.quotas import Mutations
    from kwire.security.login import Login

NOT_ASKED = -(1 << 31)
"""The authorized operations in a response if the client didn't ask for them."""

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# Without an authorizer, clients may do all that a resource allows (AclEntry.supportedOperations).
TOPIC_OPERATIONS = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
GROUP_OPERATIONS = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)


class Software:
    """The name and version that a client gives itself in ApiVersions; empty before."""

    __slots__ = ("name", "version")

    def __init__(self) -> None:
        self.name = self.version = ""


class ConnectionInfo(NamedTuple):
    """A connection as its handlers see it: its listener, both addresses, and its principal.

    ``is_gone`` says whether the client has closed its end. ``login`` is None on a listener without
    SASL.
    """

    connection_id: int
    listener: str
    local_host: str
    local_port: int
    peer_host: str
    peer_port: int
    principal: Principal = ANONYMOUS
    is_gone: Callable[[], bool] = lambda: False
    software: Software | None = None
    login: "Login | None" = None

    @property
    def host(self) -> str:
        """The client's address without its port, as ACLs name it."""
        return self.peer_host

    @property
    def peer(self) -> str:
        """The client's address and port, for log lines."""
        return f"{self.peer_host}:{self.peer_port}"


class RequestContext:
    """One request: its API version, its client, and the broker that serves it.

    ``work`` counts the cost of the request.
    """

    __slots__ = ("api_version", "broker", "client_id", "connection", "work")

    def __init__(
        self,
        broker: "Broker",
        connection: ConnectionInfo,
        api_version: int,
        client_id: str | None,
        work: Work,
    ) -> None:
        self.broker = broker
        self.connection = connection
        self.api_version = api_version
        self.client_id = client_id
        self.work = work

    @property
    def principal(self) -> Principal:
        """The client's principal."""
        return self.connection.principal

    @property
    def host(self) -> str:
        """The client's address without its port, as ACLs name it."""
        return self.connection.peer_host

    @property
    def client_host(self) -> str:
        """The client's address as Kafka prints it in groups: with a slash before it."""
        return "/" + self.connection.peer_host

    async def commit(self, decide: "Decide") -> None:
        """Commit ``decide``'s changes, unless the client is gone by then; see ``Broker.commit``."""
        await self.broker.commit(decide, self.work)

    def mutations(self, strict_since: int) -> "Mutations | None":
        """The counter for the partitions that this request creates or deletes, for a quota.

        None for a client without such a quota. From version ``strict_since`` on, clients understand
        that a part of a request is refused (KIP-599).
        """
        if self.broker.quotas is None:
            return None
        from kwire.broker.quotas import mutations_of

        is_strict = self.api_version >= strict_since
        return mutations_of(self.broker.quotas, self.principal, self.client_id, is_strict=is_strict)
