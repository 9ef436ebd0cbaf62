"""Brokers of a cluster whose disks are wiped, swapped or copied; as processes on a real etcd."""

import shutil

import pytest

from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerFailed
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders

pytestmark = pytest.mark.processes


def _elect(broker, topic: str, *indexes: int) -> list[int]:
    request = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic=topic, partitions=list(indexes))]
    )
    answer = Asker().ask(broker.bootstrap, request, 2, ElectLeadersResponse)
    (told,) = answer.replica_election_results
    return [result.error_code for result in told.partition_result]


def test_a_wiped_disk_never_leads_silently(start, tmp_path):
    """P12: the partition has no leader until its disk is back, or its loss is accepted."""
    first, second = start(1), start(2)
    create(first, "t", 2)
    kept = wait_until(lambda: leaders(first, "t"), what="the topic")
    lost = kept.index(2)
    second.kill()
    (tmp_path / "b2").rename(tmp_path / "kept")
    second.restart()
    assert f"stay without a leader: t-{lost}; start the broker with the disk" in second.log()
    assert leaders(second, "t")[lost] == -1
    second.kill()
    shutil.rmtree(tmp_path / "b2")
    (tmp_path / "kept").rename(tmp_path / "b2")
    second.restart()
    wait_until(lambda: leaders(second, "t") == kept, what="a leader with its disk")
    second.kill()
    shutil.rmtree(tmp_path / "b2")
    second.restart()
    assert leaders(second, "t")[lost] == -1
    assert _elect(first, "t", 0, 1) == [84 if at != lost else 0 for at in (0, 1)]
    wait_until(lambda: leaders(second, "t") == kept, what="the election")
    # A leader that is killed before it has made its log would look like one that has lost it.
    wait_until((tmp_path / "b2" / f"t-{lost}").is_dir, what="the new leader's log")
    second.kill()
    second.restart()
    wait_until(lambda: leaders(second, "t") == kept, what="a leader with its disk")


def test_a_copy_of_a_directory_does_not_replace_a_living_broker(start, tmp_path):
    """The copy has the same directory id, but not the lock of the old process."""
    start(1)
    shutil.copytree(tmp_path / "b1", tmp_path / "copy")
    with pytest.raises(BrokerFailed, match=r"node\.id 1 is in use by another broker"):
        start(1, "copy")
