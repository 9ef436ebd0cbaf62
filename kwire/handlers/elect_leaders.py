"""ElectLeaders: makes partitions elect a leader, preferred or unclean (KIP-460).

Behavior: an unclean election is for partitions without a leader. The replica that it elects may
lack records, or all of them. A request that names no partitions means all, and its answer leaves
out partitions that need no election.
"""

from collections.abc import Iterator, Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.slices import free_in_slices, pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.leader_election import NO_LEADER, ElectionRules, active_brokers, election_rules
from kwire.metadata.partition_change import with_elected_leader
from kwire.metadata.replication_configs import ReplicationConfigs
from kwire.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1


RIGHTS = (once(ALTER, every=True),)


@in_task
async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    """Elect, and report the result of each partition."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    wanted: dict[tuple[str, int], None] | None = None
    if request.topic_partitions is not None:
        wanted = {}
        for topic in request.topic_partitions:
            await context.work.give_way()
            for piece in pieces(topic.partitions):
                await context.work.give_way()
                wanted.update(dict.fromkeys((topic.topic, index) for index in piece))
    election = _Election(wanted, unclean=request.election_type == UNCLEAN)
    try:
        await commit_in_slices(context, election.decide)
    except KafkaError as error:
        return ElectLeadersResponse(error_code=error.code)
    results = await election.results(context.work)
    free_in_slices(election.outcomes, context.work)
    return ElectLeadersResponse(replica_election_results=results)


class _Election:
    """The decision of one request, and its result for each partition."""

    def __init__(self, wanted: dict[tuple[str, int], None] | None, *, unclean: bool) -> None:
        self._wanted = wanted
        self._unclean = unclean
        self.outcomes: dict[tuple[str, int], KafkaError | None] = {}

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes of the partitions for which a leader can be elected."""
        self.outcomes = {}
        configs, active = ReplicationConfigs(image), active_brokers(image)
        rows: dict[bytes, list[tuple[int, PartitionImage]]] = {}
        for topic, index in self._partitions(image):
            await work.give_way()
            try:
                before = _existing(image, topic, index)
                row = self._elect(before, election_rules(configs, topic, before, active))
            except KafkaError as error:
                is_left_out = error.code is ErrorCode.ELECTION_NOT_NEEDED and self._wanted is None
                if not is_left_out:
                    self.outcomes[topic, index] = error.to_keep()
                continue
            self.outcomes[topic, index] = None
            rows.setdefault(image.topics_by_name[topic].topic_id, []).append((index, row))
        return [PartitionsChanged(topic_id, tuple(some)) for topic_id, some in rows.items()]

    def _partitions(self, image: MetadataImage) -> Iterator[tuple[str, int]]:
        if self._wanted is not None:
            yield from self._wanted
            return
        for topic in image.topics_by_name.values():
            yield from ((topic.name, index) for index in range(len(topic.partitions)))

    def _elect(self, before: PartitionImage, rules: ElectionRules) -> PartitionImage:
        """The partition after its election; KafkaError."""
        has_leader = before.leader != NO_LEADER
        if has_leader if self._unclean else before.leader == before.replicas[0]:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
        after = with_elected_leader(before, rules, unclean=self._unclean)
        if after is None:
            code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if self._unclean else code)
        return after

    async def results(self, work: GivesWay) -> list[ReplicaElectionResult]:
        """The partitions by topic."""
        topics: dict[str, ReplicaElectionResult] = {}
        for (topic, index), error in self.outcomes.items():
            await work.give_way()
            told = topics.setdefault(topic, ReplicaElectionResult(topic=topic, partition_result=[]))
            told.partition_result.append(
                PartitionResult(
                    partition_id=index,
                    error_code=error.code if error else ErrorCode.NONE,
                    error_message=error.message or None if error else None,
                )
            )
        return list(topics.values())


def _existing(image: MetadataImage, topic: str, index: int) -> PartitionImage:
    found = image.partition(topic, index)
    if found is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
        )
    return found
