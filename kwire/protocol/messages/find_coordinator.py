"""FindCoordinator (API key 10): tells which broker coordinates a group, a transaction or a share
partition.

Versions 0 to 6, flexible from 3. Changes by version:

- 1: the request gains ``key_type``; the response gains ``throttle_time_ms`` and
  ``error_message``; the API finds the coordinators of transactions too (KIP-98).
- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: flexible encoding.
- 4: the request loses ``key``; the request gains ``coordinator_keys``; the response loses
  ``error_code``, ``error_message``, ``node_id``, ``host`` and ``port``; the response gains
  ``coordinators``; a request may name several keys (KIP-699).
- 5: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
- 6: the API finds the coordinators of share partitions too (KIP-932).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    string,
)


class FindCoordinatorRequest(Request, key=10, versions=(0, 6), flexible=3):
    """Tells which broker coordinates a group, a transaction or a share partition."""

    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string, since=4)


class Coordinator(Nested):
    """An element of ``coordinators`` in ``FindCoordinatorResponse``."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)


class FindCoordinatorResponse(Response, key=10, versions=(0, 6), flexible=3):
    """The answer to ``FindCoordinatorRequest``."""

    throttle_time_ms: int = int32(since=1, ignorable=True)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable=True, ignorable=True)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
