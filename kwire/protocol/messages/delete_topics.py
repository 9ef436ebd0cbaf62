"""DeleteTopics (API key 20): deletes topics.

Versions 1 to 6, flexible from 4. Changes by version:

- 2: the broker sends the response before it throttles the client (KIP-219).
- 3: the response may carry the error TOPIC_DELETION_DISABLED (KIP-322).
- 4: flexible encoding.
- 5: the response gains ``DeletableTopicResult.error_message``; KIP-599.
- 6: the request gains ``topics``; the request loses ``topic_names``; the response may have null
  ``DeletableTopicResult.name``; the response gains ``DeletableTopicResult.topic_id``; a request
  may name topics by id (KIP-516).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    string,
    uuid,
)


class DeleteTopicState(Nested):
    """An element of ``topics`` in ``DeleteTopicsRequest``."""

    name: str | None = string(nullable=True, default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Request, key=20, versions=(1, 6), flexible=4):
    """Deletes topics."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: list[str] = array(string, until=5, ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Nested):
    """An element of ``responses`` in ``DeleteTopicsResponse``."""

    name: str | None = string(nullable_since=6)
    topic_id: bytes = uuid(since=6, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=True, default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions=(1, 6), flexible=4):
    """The answer to ``DeleteTopicsRequest``."""

    throttle_time_ms: int = int32(ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
