"""Share sessions: what counts of them, also if one ends while another request fills it."""

from functools import partial

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.share.sessions import SessionLimits, ShareSessions

TOPIC_ID = bytes(16)
LIMITS = SessionLimits(sessions=3, partitions=4)


def begin(sessions, member, partitions=()):
    session = sessions.begin("workers", member, LIMITS, lambda: False)
    sessions.add(session, [(TOPIC_ID, index) for index in partitions], LIMITS)
    return session


def test_a_session_that_has_ended_takes_no_partitions_and_loses_none():
    sessions = ShareSessions()
    for _ in range(10):  # the limit doesn't come nearer
        ended = begin(sessions, "a", [0, 1])
        sessions.remove("workers", "a")
        for change in (partial(sessions.add, limits=LIMITS), sessions.forget):
            with pytest.raises(KafkaError) as refused:
                change(ended, [(TOPIC_ID, 2)])
            assert refused.value.code == ErrorCode.SHARE_SESSION_NOT_FOUND
    begin(sessions, "a", range(4))
    with pytest.raises(KafkaError) as refused:
        begin(sessions, "b", [0])
    assert refused.value.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_group_has_sessions_until_the_last_one_ends():
    sessions = ShareSessions()
    begin(sessions, "a")
    begin(sessions, "b")
    begin(sessions, "a")
    sessions.remove("workers", "a")
    sessions.remove("workers", "a")
    assert sessions.has_group("workers")
    assert not sessions.has_member("workers", "a")
    assert sessions.has_member("workers", "b")
    sessions.remove("workers", "b")
    assert not sessions.has_group("workers")
    assert not sessions.has_group("others")
