"""ExplainGroup (API key 20000, kwire's own): lists the latest events of a group with their reasons.

Version 0, flexible. Kafka has no such API. kwire doesn't advertise it; only kwire's tools use it.
"""

from kwire.protocol.types import Nested, Request, Response, array, int16, int64, string


class ExplainGroupRequest(Request, key=20_000, versions=(0, 0), flexible=0):
    """Asks for the latest events of a group."""

    group_id: str = string()


class GroupEvent(Nested):
    """An event of the group; the time is in ms since the epoch."""

    at_ms: int = int64()
    text: str = string()


class ExplainGroupResponse(Response, key=20_000, versions=(0, 0), flexible=0):
    """The answer to ``ExplainGroupRequest``; a deleted group still has events, but no state.

    ``problems`` are those of the moment, with what to do about them; only streams groups have any.
    """

    error_code: int = int16()
    group_type: str = string()
    group_state: str = string()
    events: list[GroupEvent] = array(GroupEvent)
    problems: list[str] = array(string, tag=0)
