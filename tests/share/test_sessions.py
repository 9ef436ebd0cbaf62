"""Share sessions: what counts of them, also if one ends while another request fills it."""

from functools import partial

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.share.sessions import Client, SessionLimits, ShareSession, ShareSessions

TOPIC_ID = bytes(16)
LIMITS = SessionLimits(sessions=3, partitions=4)


def begin(sessions, member, partitions=(), connection=0, principal="User:a"):
    client = Client(connection, principal, lambda: False)
    session = sessions.begin("workers", member, LIMITS, client)
    sessions.add(session, [(TOPIC_ID, index) for index in partitions], LIMITS)
    return session


@pytest.fixture
def evicted() -> list[ShareSession]:
    """The sessions that ended for others."""
    return []


@pytest.fixture
def sessions(evicted) -> ShareSessions:
    """No session yet."""
    return ShareSessions(evicted.append)


def test_a_session_that_has_ended_takes_no_partitions_and_loses_none(sessions):
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


def test_a_group_has_sessions_until_the_last_one_ends(sessions):
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


def is_refused(sessions, member, **others) -> bool:
    """Whether a session isn't begun, or ends again."""
    try:
        begin(sessions, member, **others)
    except KafkaError as error:
        return error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    return False


def test_nobody_keeps_all_sessions_from_others(sessions, evicted):
    """A connection with many gives way to another one, until they have as many."""
    for name in ("a", "b", "c"):
        begin(sessions, name, connection=1)
    begin(sessions, "d", connection=2)
    assert [one.member_id for one in evicted] == ["c"]
    assert is_refused(sessions, "c", connection=1)
    assert is_refused(sessions, "e", connection=2)
    assert not is_refused(sessions, "e", connection=3)
    assert is_refused(sessions, "f", connection=4)
    assert [one.member_id for one in evicted] == ["c", "b"]
    assert len(sessions) == LIMITS.sessions


def test_a_principal_with_many_connections_gives_way_to_another_principal(sessions, evicted):
    for number, name in enumerate(("a", "b", "c")):
        begin(sessions, name, connection=number)
    assert is_refused(sessions, "d", connection=4)
    begin(sessions, "d", connection=4, principal="User:b")
    assert [one.member_id for one in evicted] == ["c"]
    assert is_refused(sessions, "e", connection=5, principal="User:b")


def test_nobody_keeps_all_partitions_from_others(sessions, evicted):
    begin(sessions, "a", range(4), connection=1)
    begin(sessions, "b", connection=1)
    begin(sessions, "c", [0, 1], connection=2)
    assert [one.member_id for one in evicted] == ["a"]
    begin(sessions, "a", [0, 1], connection=1)
    assert is_refused(sessions, "a", partitions=range(3), connection=1)
    assert sessions.has_member("workers", "c")
