"""The member of a request and its share session, for ShareFetch and ShareAcknowledge."""

from kwire.coordinator.share.settings import LONGEST_MEMBER_ID
from kwire.errors import ErrorCode, KafkaError


def named_member(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """The group and the member of a request; KafkaError (INVALID_REQUEST)."""
    if not group_id or not member_id or len(member_id) > LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the group or the member has no valid id")
    return group_id, member_id
