"""ExplainGroup (API key 20000, kwire's own): what has happened to a group lately, and why.

Version 0, flexible. Kafka has no such API; it isn't advertised, and only kwire's tools ask it.
"""

from kwire.protocol.types import Nested, Request, Response, array, int16, int64, string


class ExplainGroupRequest(Request, key=20_000, versions=(0, 0), flexible=0):
    """Asks what has happened to a group."""

    group_id: str = string()


class GroupEvent(Nested):
    """Something that happened; the time is in ms since the epoch."""

    at_ms: int = int64()
    text: str = string()


class ExplainGroupResponse(Response, key=20_000, versions=(0, 0), flexible=0):
    """The answer to ``ExplainGroupRequest``; a group that is gone has events, but no state."""

    error_code: int = int16()
    group_type: str = string()
    group_state: str = string()
    events: list[GroupEvent] = array(GroupEvent)
