"""Whom a controller fences, and when."""

import pytest

from kwire.metadata.changes import TopicCreated, apply
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from kwire.metadata.liveness import RETURN_MS, Liveness, deadline_ms, is_shared
from kwire.metadata.store import Guard, Member, Sessions

SESSION_MS = 9000


def _brokers(*nodes, fenced=()):
    return {
        node: BrokerImage(node, None, (), f"{node}a", is_fenced=node in fenced) for node in nodes
    }


def _sessions(*names):
    """Sessions by the names of incarnations, such as ``1a``."""
    members = {int(name[0]): (Member(int(name[0]), name), Guard(name, 1)) for name in names}
    return Sessions(members, None)


def test_a_new_controller_waits_a_whole_session():
    """It doesn't know since when a broker is silent."""
    liveness = Liveness(1000, SESSION_MS)
    verdict = liveness.judge(_brokers(1, 2), _sessions("1a"), 1001)
    assert (verdict.silent, verdict.look_again_ms) == (frozenset(), 10_000)
    assert liveness.judge(_brokers(1, 2), _sessions("1a"), 9999).silent == frozenset()
    verdict = liveness.judge(_brokers(1, 2), _sessions("1a"), 10_000)
    assert (verdict.silent, verdict.look_again_ms) == ({2}, float("inf"))


def test_a_session_that_was_seen_and_is_gone_has_ended():
    """The store ended it, so there is nothing to wait for."""
    liveness = Liveness(1000, SESSION_MS)
    liveness.judge(_brokers(1, 2), _sessions("1a", "2a"), 1001)
    verdict = liveness.judge(_brokers(1, 2), _sessions("1a"), 1002)
    assert (verdict.silent, verdict.look_again_ms) == ({2}, float("inf"))


def test_another_process_with_the_same_node_id_proves_the_death_of_the_first():
    """Its own registration comes next."""
    liveness = Liveness(1000, SESSION_MS)
    liveness.judge(_brokers(1), _sessions("1a"), 1001)
    assert liveness.judge(_brokers(1), _sessions("1b"), 1002).silent == {1}


def test_a_broker_that_is_proven_dead_gets_no_time_to_appear():
    """This process, and not another one that has its node id; nor one that has a session."""
    liveness = Liveness(1000, SESSION_MS)
    brokers, sessions = _brokers(1, 2, 3), _sessions("1a")
    verdict = liveness.judge(brokers, sessions, 1001, {(1, "1a"), (2, "2a"), (3, "3b")})
    assert (verdict.silent, verdict.look_again_ms) == ({2}, 10_000)


def test_a_fenced_broker_is_not_fenced_again():
    """Whether it has a session or not."""
    liveness = Liveness(0, SESSION_MS)
    assert liveness.judge(_brokers(1, 2, fenced={1, 2}), _sessions("2a"), 20_000).silent == set()


def test_a_worker_that_comes_back_is_fenced_a_moment_later():
    """Its clients wait at its port meanwhile; a process that is started anew is waited for anew."""
    liveness = Liveness(1000, SESSION_MS)

    def judge(at_ms, brokers, *names):
        return liveness.judge(brokers, _sessions(*names), at_ms, comes_back=lambda node: node == 2)

    judge(1001, _brokers(1, 2, 3), "1a", "2a", "3a")
    verdict = judge(1100, _brokers(1, 2, 3), "1a")
    assert verdict == ({3}, 1100 + RETURN_MS)
    assert judge(1099 + RETURN_MS, _brokers(1, 2), "1a").silent == set()
    assert judge(1100 + RETURN_MS, _brokers(1, 2), "1a") == ({2}, float("inf"))
    judge(5000, _brokers(1, 2), "1a", "2a")
    assert judge(5001, _brokers(1, 2), "1a") == (set(), 5001 + RETURN_MS)


@pytest.mark.parametrize(
    ("row", "shared"),
    [
        (PartitionImage(2, 0, (2,), (2,)), set()),
        (PartitionImage(1, 0, (1, 2), (1, 2)), {1, 2}),
        (PartitionImage(1, 0, (1, 2), (1,)), set()),
        (PartitionImage(1, 0, (1, 2), (1,), elr=(2,)), {1, 2}),
    ],
)
def test_whose_replicas_others_have(row, shared):
    """Others lead in its place, or acknowledge without it, as soon as it is fenced."""
    topics = [TopicImage("t", bytes(16), (row,), 1), TopicImage("other", bytes([1] * 16), (), 0)]
    image = apply(MetadataImage(), [TopicCreated(topic) for topic in topics], 1)
    assert {node_id for node_id in (1, 2, 3) if is_shared(image, node_id)} == shared


def test_the_deadline_lies_before_the_end_of_the_session():
    """The store counts from when it got the keepalive, which is later."""
    assert deadline_ms(5000, 9000) == 5000 + 8100
    assert deadline_ms(float("inf"), 9000) == float("inf")
