"""The faults that a test plans, by API, topic, partition and client id, and their counts.

Example::

    with kafka.faults.fail("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=3):
        application.send_order()  # has to try again

Rules:

- A fault happens each time that a request fits, or ``times`` times. At most one fault happens to a
  request, the one that was planned first.
- ``count`` says how often a fault has happened. The end of a ``with`` block removes its fault, and
  raises AssertionError if the fault never happened.
- Faults may be planned and removed at any time, from any thread. A request that the broker has in
  hand already, such as a fetch that waits for records, isn't concerned.
- No fault happens to requests of the helpers of ``kwire.testing``.
"""

import re
import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from kwire.clock import steady_clock_ms
from kwire.dispatch.routes import Route
from kwire.dispatch.routing import Opened, open_frame
from kwire.errors import ErrorCode
from kwire.handlers import APIS
from kwire.handlers.lib.context import RequestContext
from kwire.protocol.types import Request
from kwire.testing.asking import CLIENT_ID
from kwire.testing.faults.acting import PASSED, Act, Call, cut, end_locks, fail, in_task, pause
from kwire.testing.faults.mirror import Wanted

ANY = "*"
"""In place of the name of an API: every API."""

FOR_EVER_S = 1e9
_OF_BROKERS = re.compile(r"broker-\d+(-fetcher-\d+)?")

WITH_PARTITIONS = frozenset(
    {
        *("AddPartitionsToTxn", "DeleteRecords", "DescribeProducers", "Fetch", "ListOffsets"),
        *("Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch", "OffsetForLeaderEpoch"),
        *("Produce", "ShareAcknowledge", "ShareFetch", "TxnOffsetCommit"),
        "WriteTxnMarkers",
    }
)
"""APIs whose requests or responses name partitions of topics."""

WITH_TOPICS = WITH_PARTITIONS | {
    *("CreatePartitions", "CreateTopics", "DeleteTopics", "DescribeTopicPartitions")
}


class NotObserved(AssertionError):
    """A fault that a test requires didn't happen."""


class Where(NamedTuple):
    """The requests that a fault concerns; None stands for all."""

    api: str
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None

    def wanted(self) -> Wanted | None:
        """The choice of topics and partitions; None for all."""
        if self.topic is None and self.partition is None:
            return None
        return Wanted(self.topic, self.partition)

    def __str__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self._asdict().items() if value is not None]
        return ", ".join([self.api, *named[1:]])


class Plan(NamedTuple):
    """What a fault does, how often, and to which requests; ``text`` says it in words."""

    where: Where
    act: Act
    times: int | None
    text: str


LOCKS_CLIENT_ID = "kwire.testing locks"
"""The client id of the helper's request after which the locks of a share group end."""

END_LOCKS = Plan(
    Where("ExplainShareGroup", client_id=LOCKS_CLIENT_ID), end_locks, None, "end share locks"
)


def _nothing() -> None:
    return


class Fault:
    """One planned fault.

    Where the broker is another process, ``synchronize`` waits for what has happened there.
    ``happens`` is called each time, before the request is acted on.
    """

    def __init__(
        self,
        plan: Plan,
        synchronize: Callable[[], object] = _nothing,
        happens: Callable[[int], object] = bool,
    ) -> None:
        where, act, times, text = plan
        self.plan = plan
        self.where = where
        self.is_removed = False
        self._count = 0
        self._synchronize = synchronize
        self._happens = happens
        self._act = act
        self._wanted = where.wanted()
        self._times = times
        self._text = text
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        limit = "" if self._times is None else f" of {self._times}"
        return f"<{self._text}({self.where}): happened {self.count}{limit} times>"

    @property
    def count(self) -> int:
        """How often the fault has happened."""
        self._synchronize()
        return self._count

    def happened(self, count: int) -> None:
        """Note how often the fault has happened elsewhere."""
        with self._changed:
            self._count = count
            self._changed.notify_all()

    @property
    def observed(self) -> bool:
        """Whether the fault has ever happened to a client."""
        return self.count > 0

    def remove(self) -> None:
        """Remove the fault, so that it no longer happens; ``count`` stays."""
        self.is_removed = True
        self._synchronize()

    def wait_until_observed(self, times: int = 1, timeout_s: float = 10.0) -> None:
        """Block until the fault has happened so often; NotObserved after ``timeout_s`` seconds."""
        deadline_ms = steady_clock_ms() + timeout_s * 1000
        with self._changed:
            while self._count < times:
                if not self._changed.wait((deadline_ms - steady_clock_ms()) / 1000):
                    break
            is_observed = self._count >= times
        if not is_observed:
            raise NotObserved(f"waited {timeout_s:g} s for {times} times: {self!r}")

    def must_be_observed(self) -> None:
        """Raise NotObserved if the fault has never happened."""
        if not self.observed:
            raise NotObserved(f"no client met this fault: {self!r}")

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()
        if error is None:
            self.must_be_observed()

    def concerns(self, api: str, client_id: str | None) -> bool:
        """Whether the fault may happen to requests of this API and client."""
        if self.is_removed or (self._times is not None and self._count >= self._times):
            return False
        if self._wanted is not None:
            named = WITH_TOPICS if self._wanted.partition is None else WITH_PARTITIONS
            if api not in named:
                return False
        return self.where.api in (ANY, api) and self.where.client_id in (None, client_id)

    def act(self, route: Route, request: Request, context: RequestContext) -> Any:
        """Act on a request in place of its handler; PASSED if the fault doesn't fit it."""
        return self._act(Call(route, request, context, self._count_match), self._wanted)

    def _count_match(self) -> bool:
        with self._changed:
            if self._times is not None and self._count >= self._times:
                return False
            self._count += 1
            self._happens(self._count)
            self._changed.notify_all()
            return True


class Faults:
    """The faults of one broker; they outlive its restarts."""

    def __init__(self) -> None:
        self._planned: tuple[Fault, ...] = ()

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._planned)

    def fail(
        self,
        api: str,
        *,
        error: str | ErrorCode,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Let requests fail with one of Kafka's errors, without being carried out."""
        code = error if isinstance(error, ErrorCode) else _known(error)
        if api == ANY:
            raise ValueError('an error is planned for one API: name it in place of "*"')
        where = Where(api, topic, partition, client_id)
        return self._add_fault(where, partial(fail, error=code), times, f"fail with {code.name}")

    def delay(
        self,
        api: str = ANY,
        *,
        seconds: float,
        after: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Let requests wait before they are carried out; with ``after`` their responses wait."""
        act = partial(in_task, after=after, act=partial(pause, seconds=seconds))
        return self._add_fault(Where(api, topic, partition, client_id), act, times, "delay")

    def drop(
        self,
        api: str = ANY,
        *,
        after: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Give requests no response, nor later requests on the same connection.

        With ``after`` the requests are carried out first.
        """
        act = partial(in_task, after=after, act=partial(pause, seconds=FOR_EVER_S))
        return self._add_fault(Where(api, topic, partition, client_id), act, times, "drop")

    def cut(
        self,
        api: str = ANY,
        *,
        after: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """Let requests end their connections; with ``after`` they are carried out first."""
        act = partial(in_task, after=after, act=cut)
        return self._add_fault(Where(api, topic, partition, client_id), act, times, "cut")

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self._planned:
            fault.remove()
        self._planned = ()

    def _add_fault(self, where: Where, act: Act, times: int | None, text: str) -> Fault:
        _check(where, times)
        return self.plan(Plan(where, act, times, text))

    def plan(self, plan: Plan) -> Fault:
        """Plan a fault."""
        return self.keep(Fault(plan))

    def keep(self, fault: Fault) -> Fault:
        """Have a fault happen after those that are planned."""
        self._planned = (*(f for f in self._planned if not f.is_removed), fault)
        return fault

    def open_frame(self, frame: memoryview) -> Opened:
        """``routing.open_frame``; a request that a fault may concern is routed through here."""
        opened = open_frame(frame)
        header, route, position = opened
        if route is None or not self._planned or header.client_id == CLIENT_ID:
            return opened
        if not any(fault.concerns(route.api.name, header.client_id) for fault in self._planned):
            return opened
        faulty = route._replace(serve_single=None, handle=partial(self._handle, route))
        return header, faulty, position

    def open_frame_of_clients(self, frame: memoryview) -> Opened:
        """Like ``open_frame`` in a cluster, in which no request of a broker meets a fault."""
        opened = open_frame(frame)
        client_id = opened[0].client_id
        is_broker = client_id is not None and _OF_BROKERS.fullmatch(client_id) is not None
        return opened if is_broker else self.open_frame(frame)

    def _handle(self, route: Route, request: Request, context: RequestContext) -> Any:
        for fault in self._planned:
            if fault.concerns(route.api.name, context.client_id):
                outcome = fault.act(route, request, context)
                if outcome is not PASSED:
                    return outcome
        return route.handle(request, context)


def _known(error: str) -> ErrorCode:
    try:
        return ErrorCode[error]
    except KeyError:
        raise ValueError(
            f"Kafka has no error {error!r}{_like(error, ErrorCode.__members__)}"
        ) from None


def _like(name: str, names: Any) -> str:
    close = get_close_matches(name, list(names), n=3)
    return f"; there is {', '.join(close)}" if close else ""


def _check(where: Where, times: int | None) -> None:
    """ValueError for a fault that could never happen."""
    names = {api.name for api in APIS.values()}
    if where.api not in names | {ANY}:
        raise ValueError(f"kwire serves no API {where.api!r}{_like(where.api, names)}")
    if times is not None and times < 1:
        raise ValueError(f"times={times}: a fault happens once or more often, or None for always")
    if where.topic is not None and where.api not in WITH_TOPICS | {ANY}:
        raise ValueError(f"requests of {where.api} name no topics: leave out topic=")
    if where.partition is not None and where.api not in WITH_PARTITIONS | {ANY}:
        raise ValueError(f"requests of {where.api} name no partitions: leave out partition=")
