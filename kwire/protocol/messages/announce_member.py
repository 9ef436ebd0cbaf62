"""AnnounceMember (API key 20001, kwire's own): a broker tells a coordinator that a client may join.

Version 0, flexible. Kafka has no such API. kwire doesn't advertise it; only brokers use it.
"""

from kwire.protocol.types import Nested, Request, Response, array, int16, int64, string


class Announcement(Nested):
    """A client that asked for the coordinator of a group, by its connection's number."""

    group_id: str = string()
    connection_id: int = int64()


class AnnounceMemberRequest(Request, key=20_001, versions=(0, 0), flexible=0):
    """Tells which clients have asked for the coordinators of their groups."""

    announcements: list[Announcement] = array(Announcement)


class AnnounceMemberResponse(Response, key=20_001, versions=(0, 0), flexible=0):
    """The answer to ``AnnounceMemberRequest``, after which the clients may be answered."""

    error_code: int = int16()
