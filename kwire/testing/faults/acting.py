"""Carries out a fault: a request fails, is late or swallowed, or its connection is cut.

Rules:

- ``Act`` is called in place of the handler, in the broker's event loop, and returns the same kinds
  of results.
- With a fault *after* the request, the handler carries out the request first: the client can't know
  whether that has happened.
- A swallowed request keeps its connection waiting, as if the broker hung. The wait ends when the
  client closes the connection, or when the broker stops.
- While an error is planned for fetches of some topics, clients get no fetch session (KIP-227), so
  that each of their requests names its partitions. Kafka does the same when it has too many
  sessions.
- A share session can't be taken away, because a member's records belong to it. So a fault of
  ShareFetch concerns the partitions of the session, too. Those that fail are out of the session
  while the handler serves the others, and their acknowledgements in the request don't count.
"""

from collections.abc import Callable
from copy import copy
from types import CoroutineType, coroutine
from typing import Any, NamedTuple, TypeAlias

import trio

from kwire.broker.delayed import Delayed
from kwire.dispatch.failures import ConnectionClosed
from kwire.dispatch.routes import Route
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import Unfinished, at_once_or_later
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.share_fetch import (
    ForgottenTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.share.sessions import INITIAL_EPOCH, ShareSession, TopicPartition
from kwire.testing.faults.mirror import Wanted, merge, refusal, split

LOOK_INTERVAL_S = 0.02
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
SESSIONS_SINCE = 7
FINAL_EPOCH = -1


class Call(NamedTuple):
    """A request, the route that would serve it, and its surroundings.

    ``take`` counts the fault; it returns False if the fault has happened as often as planned.
    """

    route: Route
    request: Any
    context: RequestContext
    take: Callable[[], bool]

    def carry_out(self) -> Any:
        """Have the handler serve the request."""
        return self.route.handle(self.request, self.context)

    def name_of(self, topic_id: bytes) -> str:
        """The name of a topic, empty if no topic has this id."""
        topic = self.context.broker.image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name


class Passed:
    """What an act returns if its fault doesn't concern the request."""


PASSED = Passed()

Act: TypeAlias = Callable[[Call, Wanted | None], Any]
"""Does a fault to a request. The second argument chooses topics and partitions, None for all."""


def _is_meant(call: Call, wanted: Wanted | None) -> bool:
    """Whether the request names a topic that is wanted."""
    if wanted is None:
        return True
    if isinstance(call.request, MetadataRequest):
        return _asks_metadata_of(call, wanted)
    if isinstance(call.request, ShareFetchRequest):
        return bool(_fetched_by_member(call, wanted))
    return split(call.request, call.context.api_version, wanted, call.name_of)[0] is not None


def _asks_metadata_of(call: Call, wanted: Wanted) -> bool:
    topics = call.request.topics
    if topics is None or (not topics and call.context.api_version == 0):
        return True  # the request names all topics
    return any(wanted.fits_topic(one.name or call.name_of(one.topic_id)) for one in topics)


def in_task(call: Call, wanted: Wanted | None, *, after: bool, act: Callable[[Call], Any]) -> Any:
    """Do ``act``, which takes time, before or after the request is carried out."""
    renewed = _without_session(call) if wanted is not None else None
    if renewed is not None:
        return renewed
    if not _is_meant(call, wanted) or not call.take():
        return PASSED
    return _after(call, act) if after else _before(call, act)


async def _before(call: Call, act: Callable[[Call], Any]) -> Any:
    await act(call)
    call.context.broker.flusher.forget()
    return call.carry_out()


async def _after(call: Call, act: Callable[[Call], Any]) -> Any:
    call.context.broker.flusher.forget()
    response = await _finished(call.carry_out())
    await act(call)
    return response


async def pause(call: Call, seconds: float) -> None:
    """Wait; a client that is gone and a broker that stops end the wait."""
    end_s = trio.current_time() + seconds
    context = call.context
    while not (context.connection.is_gone() or context.broker.is_stopping):
        left_s = end_s - trio.current_time()
        if left_s <= 0:
            return
        await trio.sleep(min(left_s, LOOK_INTERVAL_S))
    raise ConnectionClosed


async def cut(call: Call) -> None:
    """End the connection."""
    raise ConnectionClosed(f"a fault of the test cuts it at {call.route.api.name}")


async def _finished(response: Any) -> Any:
    """The response that a handler gives in the end."""
    while True:
        if isinstance(response, Unfinished):
            response = await _finish_handler(response)
        elif isinstance(response, CoroutineType):
            response = await response
        else:
            return response


async def _finish_handler(unfinished: Unfinished) -> Any:
    """Wait for the change or the work of an unfinished handler, and resume it."""
    try:
        if not isinstance(unfinished.waits_for, Delayed):
            return await unfinished.work()
        await _happened(unfinished.waits_for)
    except trio.Cancelled:
        unfinished.close()
        raise
    return unfinished.go_on()


class _Bell:
    """Resumes a task when a change has happened."""

    def __init__(self, deadline_s: float) -> None:
        self.rings = trio.Event()
        self.patience = trio.CancelScope(deadline=deadline_s)

    def wake(self, size: int) -> None:
        """Resume the task."""
        self.rings.set()

    def hasten(self, change: Delayed) -> None:
        """Resume the task at the change's deadline, which has become sooner."""
        self.patience.deadline = change.deadline_s


async def _happened(change: Delayed) -> None:
    bell = _Bell(change.deadline_s)
    change.sleeper = bell
    if change.is_set:
        return
    with bell.patience:
        await bell.rings.wait()
    if not change.is_set:
        change.time_is_up()


def fail(call: Call, wanted: Wanted | None, error: ErrorCode) -> Any:
    """Answer the wanted parts with an error, and let the handler serve the others."""
    if isinstance(call.request, MetadataRequest):
        return _then(call.carry_out(), lambda told: _fail_metadata(told, call, wanted, error))
    if wanted is not None and isinstance(call.request, ShareFetchRequest):
        return _fail_share_fetch(call, wanted, error)
    is_fetch = isinstance(call.request, FetchRequest)
    is_general = error in SESSION_ERRORS if is_fetch else wanted is None
    renewed = None if is_general else _without_session(call)
    if renewed is not None:
        return renewed
    version = call.context.api_version
    meant, rest = call.request, None
    if wanted is not None:
        meant, rest = split(call.request, version, wanted, call.name_of)
    if meant is None or not call.take():
        return PASSED
    if getattr(call.request, "acks", None) == 0:
        raise ConnectionClosed(f"a fault of the test: {error.name} for a Produce without response")
    text = _text_of(error)
    refused = refusal(meant, version, error, general=is_general, text=text)
    if rest is None:
        return refused
    if isinstance(rest, FetchRequest):
        rest.max_wait_ms = 0

    def with_errors(response: Any) -> Any:
        merge(response, refused, version)
        return response

    return _then(call._replace(request=rest).carry_out(), with_errors)


def _without_session(call: Call) -> FetchResponse | None:
    """Make a fetch name its partitions: end its session, and begin no other.

    Returns the response to a fetch that names only changed partitions. The client then names all.
    """
    request = call.request
    if not isinstance(request, FetchRequest) or call.context.api_version < SESSIONS_SINCE:
        return None
    if request.session_epoch > 0:
        call.context.broker.fetch_sessions.remove(request.session_id)
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    request.session_epoch = FINAL_EPOCH
    return None


def _text_of(error: ErrorCode) -> str:
    return f"{error.name} was planned by the test"


def _session_of(call: Call) -> ShareSession | None:
    request = call.request
    sessions = call.context.broker.share_partitions.sessions
    return sessions.of_member(request.group_id or "", request.member_id or "")


def _fetched_by_member(call: Call, wanted: Wanted) -> list[TopicPartition]:
    """The wanted partitions from which a ShareFetch acquires records, or that it acknowledges."""
    request = call.request
    session = _session_of(call) if request.share_session_epoch > INITIAL_EPOCH else None
    places = dict.fromkeys(session.partitions if session is not None else ())
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            places.pop((forgotten.topic_id, index), None)
    for topic in request.topics:
        places |= dict.fromkeys((topic.topic_id, one.partition_index) for one in topic.partitions)
    return [one for one in places if wanted.fits(call.name_of(one[0]), one[1])]


def _fail_share_fetch(call: Call, wanted: Wanted, error: ErrorCode) -> Any:
    """Answer the wanted partitions with an error, and serve the others of the session."""
    places = _fetched_by_member(call, wanted)
    if not places or not call.take():
        return PASSED
    meant, others = split(call.request, call.context.api_version, wanted, call.name_of)
    acknowledged = {
        (topic.topic_id, one.partition_index)
        for topic in (() if meant is None else meant.topics)
        for one in topic.partitions
        if one.acknowledgement_batches
    }
    rest = copy(call.request)
    rest.max_wait_ms, rest.topics = 0, [] if others is None else others.topics
    rest.forgotten_topics_data = [
        *rest.forgotten_topics_data,
        *(ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in places),
    ]

    def with_errors(response: ShareFetchResponse) -> ShareFetchResponse:
        session, manager = _session_of(call), call.context.broker.share_partitions
        if response.error_code:
            return response
        if session is not None:
            manager.sessions.add(session, places, manager.limits())
        for place in places:
            row = PartitionData(partition_index=place[1], error_code=error)
            row.error_message = _text_of(error)
            if place in acknowledged:
                row.acknowledge_error_code, row.acknowledge_error_message = error, _text_of(error)
            topic = ShareFetchableTopicResponse(topic_id=place[0], partitions=[row])
            response.responses.append(topic)
        return response

    return _then(call._replace(request=rest).carry_out(), with_errors)


def end_locks(call: Call, _: Wanted | None) -> Any:
    """End the locks of a share group's records, as if their time was up."""
    call.take()
    call.context.broker.share_partitions.end_locks(call.request.group_id)
    return call.carry_out()


def _fail_metadata(
    response: MetadataResponse, call: Call, wanted: Wanted | None, error: ErrorCode
) -> MetadataResponse:
    """Put an error into the metadata of topics or partitions."""
    topics = [t for t in response.topics if wanted is None or wanted.fits(t.name, None)]
    partitions = [
        partition
        for topic in response.topics
        for partition in topic.partitions
        if wanted is not None
        and topic not in topics
        and wanted.fits(topic.name, partition.partition_index)
    ]
    if not (topics or partitions) or not call.take():
        return response
    for topic in topics:
        topic.error_code, topic.partitions = error, []
    for partition in partitions:
        partition.error_code, partition.leader_id = error, -1
    return response


def _then(response: Any, change: Callable[[Any], Any]) -> Any:
    """The result of a handler, with its response changed."""
    if isinstance(response, Unfinished):
        return at_once_or_later(_then_later(response, change))
    if isinstance(response, CoroutineType):
        return _then_in_task(response, change)
    return change(response)


@coroutine
def _resumed(unfinished: Unfinished) -> Any:
    response: Any = unfinished
    while response is unfinished:
        try:
            result = yield unfinished.waits_for
        except BaseException as error:
            response = unfinished.go_on_with(error)
        else:
            response = unfinished.go_on(result)
    return response


async def _then_later(unfinished: Unfinished, change: Callable[[Any], Any]) -> Any:
    return change(await _resumed(unfinished))


async def _then_in_task(response: Any, change: Callable[[Any], Any]) -> Any:
    return _then(await response, change)
