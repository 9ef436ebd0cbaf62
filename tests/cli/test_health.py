"""``kwire health`` says what is wrong, and what it could not look at."""

import json
import re
from argparse import Namespace
from functools import partial
from random import Random

import trio

from kwire.broker.controller_lease import ControllerLease
from kwire.cli import main
from kwire.cli.broker_checks import fenced_brokers, look_at
from kwire.cli.health import NOT_KNOWN, checks_of, print_checks
from kwire.cli.internal_topics import too_few_brokers
from kwire.client.cluster import open_cluster
from kwire.client.settings import ClientSettings
from kwire.config.internal_topics import FACTORS
from kwire.config.metadata_store import SETTING
from kwire.errors import ErrorCode
from kwire.metadata.changes import BrokerRegistered, TopicCreated
from kwire.metadata.image import BrokerImage, ConfigResourceType, PartitionImage, TopicImage
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kwire.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumResponsePartitionData as Partition,
)
from kwire.protocol.messages.describe_quorum import DescribeQuorumResponseTopicData as Topic
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from tests.client.conftest import ScriptedBrokers
from tests.support.in_process import running_server
from tests.support.share_member import configure

NO_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}


async def _health(running, *options):
    bootstrap = f"127.0.0.1:{running.server.addresses[0][1]}"
    return await trio.to_thread.run_sync(partial(main, ["health", "-b", bootstrap, *options]))


async def test_a_broker_that_serves_is_healthy(tmp_path, capsys):
    """It has no topic, reaches its store, and takes groups."""
    async with running_server(tmp_path) as running:
        assert await _health(running) == 0
    said = capsys.readouterr().out
    assert "ok   metadata      1 of 1 brokers reach it\n" in said
    assert "broker 1 takes groups" in said
    assert said.endswith("\nhealthy\n")


async def test_internal_topics_are_told_apart(tmp_path, capsys):
    """Their many partitions would else seem to be the user's."""
    async with running_server(tmp_path) as running:
        await running.topic("orders")
        assert await _health(running) == 0  # the question for a coordinator makes its topic
        capsys.readouterr()
        assert await _health(running) == 0
    assert re.search(r"(\d+) of \1 partitions of 2 topics \(1 internal\)", capsys.readouterr().out)


async def test_cordoned_data_directories_are_noted(tmp_path, capsys):
    """They are no fault, but explain why a broker gets no replicas."""
    settings = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
    async with running_server(tmp_path / "a", settings) as running:
        for cordoned, what in (
            (f"{tmp_path}/b", f"broker 1, {tmp_path}/b"),
            ("*", "broker 1, all its data directories"),
        ):
            error = await configure(
                running, "1", "cordoned.log.dirs", cordoned, ConfigResourceType.BROKER
            )
            assert not error
            assert await _health(running) == 0
            said = capsys.readouterr().out
            assert f"-    cordoned      these get no new replicas: {what}; kwire configs" in said


async def test_who_has_no_rights_is_told_which_are_missing(tmp_path, capsys):
    """That isn't an outage, but little is known either: the exit code is neither 0 nor 1."""
    async with running_server(tmp_path, AUTHORIZER) as running:
        assert await _health(running) == NOT_KNOWN
        said = capsys.readouterr().out
        assert await _health(running, "--json") == NOT_KNOWN
        document = json.loads(capsys.readouterr().out)
    cluster = "not known: no right to DESCRIBE the cluster"
    group = "not known: no right to DESCRIBE the group kwire-health"
    assert f"?    metadata      {cluster}\n" in said
    assert "0 topics that this user may describe" in said
    assert said.endswith(f"\n{cluster}; {group}\n")
    assert document["healthy"] is None
    assert [row["text"] for row in document["checks"] if row["ok"] is None] == [cluster, group]


async def test_what_is_wrong_counts_more_than_what_is_not_known(tmp_path, capsys):
    """A missing right hides no outage."""
    async with running_server(tmp_path, AUTHORIZER) as running:
        await running.broker.commit(lambda _: [BrokerRegistered(_missing(2))])
        assert await _health(running) == 1
    assert capsys.readouterr().out.endswith("\nnot healthy\n")


def _missing(node_id: int) -> BrokerImage:
    return BrokerImage(node_id, None, (("PLAINTEXT", "127.0.0.1", 9093),), is_fenced=True)


async def test_a_registered_broker_that_is_not_there_is_named(tmp_path, capsys):
    """Metadata leaves it out; its number and its address are what an operator needs."""
    async with running_server(tmp_path) as running:
        await running.broker.commit(lambda _: [BrokerRegistered(_missing(2))])
        assert await _health(running) == 1
    said = capsys.readouterr().out
    assert "BAD  brokers       1 of 2 answer" in said
    assert (
        "broker 2 at 127.0.0.1:9093 is registered but fenced (down, cut off, or starting)" in said
    )
    assert "ok   metadata      1 of 1 brokers reach it\n" in said


async def test_partitions_without_a_leader_are_named_with_what_to_do(tmp_path, capsys):
    """The brokers of their replicas have to be started."""
    async with running_server(tmp_path) as running:
        topic = TopicImage("t", bytes(16), (PartitionImage(-1, 3, (2,), (2,)),), 1)
        await running.broker.commit(lambda _: [TopicCreated(topic)])
        assert await _health(running) == 1
    said = capsys.readouterr().out
    assert "partitions of 1 topic have one: t-0; start the brokers of their replicas" in said


async def test_a_broker_alone_needs_no_more_brokers_for_its_internal_topics(tmp_path, capsys):
    """Its settings may be those of a cluster: without a store they don't count."""
    async with running_server(tmp_path, dict.fromkeys(FACTORS.values(), "3")) as running:
        assert await _health(running) == 0
    assert "transactions" not in capsys.readouterr().out


class Few(ScriptedBrokers):
    """A cluster of two brokers whose internal topics need three."""

    def __init__(self, nursery):
        super().__init__(nursery)
        self.errors = dict.fromkeys(FACTORS, NO_TOPIC)
        self.values = dict.fromkeys(FACTORS.values(), "3") | {SETTING: "etcd://h/kwire"}
        self.code = ErrorCode.NONE
        self.ranges[DescribeConfigsRequest.API_KEY] = DescribeConfigsRequest.VERSIONS
        self.answer = self.told

    def told(self, port, request, version):
        """What the broker answers."""
        if isinstance(request, MetadataRequest) and request.topics:
            met = self.default(port, MetadataRequest(topics=[]), version)
            met.topics = [
                MetadataResponseTopic(name=name, error_code=code)
                for name, code in self.errors.items()
            ]
            return met
        if isinstance(request, DescribeConfigsRequest):
            rows = [DescribeConfigsResourceResult(name=n, value=v) for n, v in self.values.items()]
            told = DescribeConfigsResult(error_code=self.code, configs=rows)
            return DescribeConfigsResponse(results=[told])
        if isinstance(request, FindCoordinatorRequest):
            is_missing = bool(self.errors["__consumer_offsets"])
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_missing else ErrorCode.NONE
            home = Coordinator(key="kwire-health", node_id=2, host="h", port=2, error_code=code)
            return FindCoordinatorResponse(coordinators=[home])
        return self.default(port, request, version)


async def test_internal_topics_that_need_more_brokers(nursery, autojump_clock):
    """As long as the topic is missing; who may not see it or the settings is told nothing."""
    few = Few(nursery)
    async with open_cluster([("h", 1)], ClientSettings(), few.open, Random(1)) as cluster:
        assert await too_few_brokers(cluster, 1, 3) == {}
        assert await too_few_brokers(cluster, 1, 2) == {
            name: f"{name} can't be created: {setting} is 3, and the cluster has 2 brokers"
            for name, setting in FACTORS.items()
        }
        few.errors["__consumer_offsets"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        others = ["__transaction_state", "__share_group_state"]
        assert list(await too_few_brokers(cluster, 1, 2)) == others
        few.values[SETTING] = None
        assert await too_few_brokers(cluster, 1, 2) == {}
        del few.values[SETTING]  # Apache Kafka
        assert list(await too_few_brokers(cluster, 1, 2)) == others
        few.code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await too_few_brokers(cluster, 1, 2) == {}
        few.code = ErrorCode.NONE
        few.errors.update(dict.fromkeys(others, ErrorCode.NONE))
        assert await too_few_brokers(cluster, 1, 2) == {}


async def test_missing_internal_topics_count_where_somebody_is_not_served(
    nursery, autojump_clock, capsys
):
    """The check asks for a group, so that counts; transactions are noted until they are used."""
    few, options = Few(nursery), Namespace(json=False)
    few.leaders = {0: 2}
    settings = ClientSettings(connect_timeout_s=1, give_up_s=1)
    async with open_cluster([("h", 2)], settings, few.open, Random(1)) as cluster:
        few.refused.add(1)
        *_, groups, transactions = await checks_of(cluster)
        few.refused.clear()
        few.errors["__consumer_offsets"] = ErrorCode.NONE
        assert print_checks(options, [groups, transactions]) == 1
        assert print_checks(options, await checks_of(cluster)) == 0
    assert few.named(DescribeConfigsRequest) == [2, 1]  # the first is silent at first
    first, second, *_, noted, verdict = capsys.readouterr().out.splitlines()
    cause = "can't be created: offsets.topic.replication.factor is 3, and the cluster has 2"
    assert first.startswith(
        f"BAD  coordinators  groups can't be served: __consumer_offsets {cause}"
    )
    assert first.endswith(
        "; start more brokers, or lower the setting of each broker and restart it"
    )
    assert second == noted
    assert noted.startswith("-    transactions  nobody has used them yet, and none can be served")
    assert verdict == "healthy"


async def test_a_broker_that_does_not_reach_its_store_says_so(tmp_path, capsys):
    """Clients are served meanwhile, so nothing else tells it."""
    async with running_server(tmp_path) as running:
        running.broker.lease = ControllerLease(lambda: 0)
        running.broker.lease.is_cut_off = True
        assert await _health(running) == 1
        running.broker.lease.is_cut_off = False
        assert await _health(running) == 0
    said = capsys.readouterr().out
    silent = "broker 1: the metadata store (kwire.metadata.store) doesn't answer"
    assert f"BAD  metadata      0 of 1 brokers reach it: {silent}\n" in said


async def test_brokers_of_other_versions(nursery, autojump_clock):
    """Before KIP-1073 and KRaft nobody tells these things; an error of the quorum counts."""
    brokers = ScriptedBrokers(nursery)
    settings = ClientSettings(connect_timeout_s=1)
    async with open_cluster([("h", 1)], settings, brokers.open, Random(1)) as cluster:
        assert [any(view[:2]) for view in await look_at(cluster, [1, 2])] == [False, False]
        brokers.ranges[DescribeClusterRequest.API_KEY] = (0, 1)
        assert await fenced_brokers(cluster) == []
    brokers.ranges[DescribeQuorumRequest.API_KEY] = (0, 2)
    brokers.refused.add(2)

    def answer(port, request, version):
        if not isinstance(request, DescribeQuorumRequest):
            return brokers.default(port, request, version)
        row = Partition(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return DescribeQuorumResponse(topics=[Topic(topic_name="", partitions=[row])])

    brokers.answer = answer
    async with open_cluster([("h", 1)], settings, brokers.open, Random(1)) as cluster:
        first, second = await look_at(cluster, [1, 2])
        assert first.loss == "broker 1: NOT_LEADER_OR_FOLLOWER"
        assert "connection refused" in second.silence
        brokers.gate, brokers.gated = trio.Event(), DescribeQuorumRequest
        (first,) = await look_at(cluster, [1])
    assert first == ("", "broker 1: no answer to DescribeQuorum within 30 s", True, "")
