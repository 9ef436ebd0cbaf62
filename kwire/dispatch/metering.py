"""Counts the use of a request for the quotas of its client, and makes the client wait.

Rules:

- The response is sent at once. It says how long the client has to wait. During that time kwire
  reads nothing more from the connection (KIP-219).
- Produce counts the bytes of the request, even if its records are refused. Fetch counts the bytes
  of records, in its handler. The handler sends no records to a consumer that has to wait, and
  ShareFetch acquires none for one. What it has acquired counts. If a client exceeds several quotas,
  the longest wait counts.
- The time of a request is the time that the event loop works on it, from its frame to its response,
  and the time that it takes the threads which decode, decompress and encode. The time in
  which the request itself waits, for a turn, a disk or a change, isn't counted.
- Logins, and requests that brokers send to each other, are exempt. If a client without the right
  CLUSTER_ACTION sends a request that only brokers may send, it counts like any other request.

Source: RequestHandlerHelper, ClientRequestQuotaManager of Kafka; KIP-124.
"""

from time import perf_counter
from typing import Any

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.quotas import Quotas
from kwire.budget.work import Work
from kwire.dispatch.pending_request import Waiting
from kwire.dispatch.routes import Route
from kwire.handlers import PRODUCE_KEY
from kwire.handlers.lib.context import ConnectionInfo
from kwire.metadata.acls import AclOperation
from kwire.protocol.frame import RequestHeader
from kwire.quotas.clients import OwnQuotas, RateMeter

FETCHES = frozenset({1, 78})
"""Fetch, ShareFetch: their handlers say how long to wait, as do those of ``MUTATING``."""

ADD_PARTITIONS_TO_TXN_KEY, BROKERS_SINCE = 24, 4
LOGIN = frozenset({17, 36})
"""SaslHandshake, SaslAuthenticate."""

AMONG_BROKERS = frozenset({27, 20_001})
"""WriteTxnMarkers, AnnounceMember."""

MUTATING = frozenset({19, 20, 37})
"""CreateTopics, DeleteTopics, CreatePartitions: their handlers say how long to wait."""

FETCH, PRODUCE, REQUEST, MUTATION = "fetch", "produce", "request", "controller_mutation"


class Pause(Waiting):
    """Takes the place of a waiting request while the client's next request isn't read yet."""

    __slots__ = ("_pause", "_pauses")

    is_request = False

    def __init__(
        self, served_by: Route, header: RequestHeader, quotas: Quotas, wait_ms: int
    ) -> None:
        self.served_by = served_by
        self.header = header
        self._pauses = quotas.pauses
        self._pause = Delayed(trio.current_time() + wait_ms / 1000)
        self._pauses.add(self._pause)

    @property
    def change(self) -> Delayed:
        """The end of the pause."""
        return self._pause

    def close(self) -> None:
        """The pause is over, or the connection has ended."""
        self._pauses.discard(self._pause)


class Metering:
    """One request, from its frame to its answer; ``wait_ms`` is known with the answer."""

    __slots__ = (
        "_frame_bytes",
        "_header",
        "_is_answered",
        "_own",
        "_quotas",
        "_since_s",
        "_spent_s",
        "_work",
        "wait_ms",
    )

    def __init__(
        self, quotas: Quotas, own: OwnQuotas, header: RequestHeader, frame_bytes: int, work: Work
    ) -> None:
        self._quotas = quotas
        self._own = own
        self._header = header
        self._frame_bytes = frame_bytes
        self._work = work
        self._spent_s = 0.0
        self._since_s = perf_counter()
        self._is_answered = False
        self.wait_ms = 0
        work.is_exempt = False
        work.in_threads_s = 0.0

    def resume(self) -> None:
        """The event loop works on the request again."""
        self._since_s = perf_counter()

    def rest(self) -> None:
        """The event loop leaves the request. Work after the answer counts for the next request."""
        now_s = perf_counter()
        self._spent_s += now_s - self._since_s
        self._since_s = now_s
        meter = self._own.request
        if self._is_answered and meter is not None and not self._work.is_exempt:
            meter.counter.record(self._spent_s * 100, self._quotas.steady_ms())
            self._spent_s = 0.0

    def answer(self, response: Any) -> None:
        """Count a request that has its response, once; put the throttle time into the response."""
        if self._is_answered:
            return
        self._is_answered = True
        if self._work.is_exempt:
            return
        now_ms = self._quotas.steady_ms()
        key = self._header.api_key
        kind, wait_ms = REQUEST, 0
        own = self._own
        if response is not None and own.request is not None:
            wait_ms = self._use_time(own.request, now_ms)
        if key == PRODUCE_KEY and own.produce is not None:
            own_ms = own.produce.use(self._frame_bytes, now_ms)
            if own_ms > wait_ms:
                kind, wait_ms = PRODUCE, own_ms
        elif (key in FETCHES or key in MUTATING) and response.throttle_time_ms > wait_ms:
            kind = FETCH if key in FETCHES else MUTATION
            wait_ms = response.throttle_time_ms
        if wait_ms:
            self.wait_ms = wait_ms
            self._quotas.note(kind, wait_ms)
            self._set_throttle_time(response)

    def _use_time(self, meter: RateMeter, now_ms: int) -> int:
        now_s = perf_counter()
        spent_s = self._spent_s + now_s - self._since_s + self._work.in_threads_s
        self._since_s, self._spent_s = now_s, 0.0
        return meter.use(spent_s * 100, now_ms)

    def _set_throttle_time(self, response: Any) -> None:
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = self.wait_ms


def metering_of(
    broker: Broker, info: ConnectionInfo, header: RequestHeader, frame_bytes: int, work: Work
) -> Metering | None:
    """The metering of a request; None if no quota applies. Only for a broker with quotas."""
    assert broker.quotas is not None
    own = quotas_of(broker, info, header)
    return None if own is None else Metering(broker.quotas, own, header, frame_bytes, work)


def quotas_of(broker: Broker, info: ConnectionInfo, header: RequestHeader) -> OwnQuotas | None:
    """The client's quotas, if one of them applies to a request. Only for a broker with quotas."""
    quotas = broker.quotas
    assert quotas is not None
    key = header.api_key
    if key in LOGIN:
        return None
    asks_as_broker = key == ADD_PARTITIONS_TO_TXN_KEY and header.api_version >= BROKERS_SINCE
    if asks_as_broker or key in AMONG_BROKERS:
        authorizer = broker.authorizer
        if authorizer is None or authorizer.allows_on_cluster(info, AclOperation.CLUSTER_ACTION):
            return None
    if info.login is not None and not info.login.is_open:
        return None
    own = quotas.of(info.principal, header.client_id)
    counts = own.request is not None
    if key == PRODUCE_KEY:
        counts = counts or own.produce is not None
    elif key in FETCHES:
        counts = counts or own.fetch is not None
    elif key in MUTATING:
        counts = counts or own.mutation is not None
    return own if counts else None
