"""A refused request or element is answered by what was asked, with the error."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
)
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchTopic
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.refusing import PIECE, Refusing, elements, refusing, refusing_each

ERROR = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
CODE = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def made(steps: Refusing):
    """What the steps make, and how many elements they announce."""
    counts = []
    while True:
        try:
            counts.append(next(steps))
        except StopIteration as done:
            return done.value, counts


def refused(request, version, **options):
    """The whole answer to a request."""
    answer = message_classes(request.API_KEY)[1]
    return made(refusing(request, answer, ERROR, version, **options))[0]


def test_elements_have_the_error_if_nothing_around_them_has():
    """Each names the topic and the partition that were asked, and nothing else of the request."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=7) for n in (3, 1)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    [topic] = refused(OffsetCommitRequest(group_id="g", topics=topics), 8).topics
    assert topic.name == "t"
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (3, CODE),
        (1, CODE),
    ]


def test_an_error_of_the_whole_answer_stands_alone():
    """Unless every element has to be named, too."""
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    answer = refused(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    assert (answer.error_code, answer.topics) == (CODE, [])
    asked = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[4, 5])])
    answer = refused(asked, 2, every=True)
    [result] = answer.replica_election_results
    assert (answer.error_code, result.topic) == (CODE, "t")
    assert [(one.partition_id, one.error_code) for one in result.partition_result] == [
        (4, CODE),
        (5, CODE),
    ]
    assert refused(asked, 0, every=True).error_code == 0, "version 0 has no such field"


def test_what_names_an_element_may_be_an_array():
    """The entity of a quota has several parts."""
    entity = [EntityData(entity_type="user", entity_name=None)]
    asked = AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=entity)])
    [entry] = refused(asked, 1, every=True).entries
    assert (entry.error_code, entry.error_message) == (CODE, ERROR.message)
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [("user", None)]


def test_values_of_the_request_that_name_nothing_are_not_told():
    """A topic that isn't created has no partitions, and a producer's id isn't repeated."""
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    topics = [CreatableTopic(name="t", num_partitions=3, configs=configs)]
    [topic] = refused(CreateTopicsRequest(topics=topics), 7).topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", -1, -1)
    assert topic.configs == []
    wanted = [ListOffsetsPartition(partition_index=2, timestamp=1234)]
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=wanted)])
    [answer] = refused(asked, 11).topics[0].partitions
    assert (answer.partition_index, answer.timestamp, answer.offset) == (2, -1, -1)
    assert refused(EndTxnRequest(producer_id=5), 5).producer_id == -1


def test_the_field_of_another_name_is_found():
    """Fetch calls a partition otherwise in its response."""
    partition = FetchPartition(partition=9, log_start_offset=77)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    [topic], _ = made(refusing_each(topics, FetchTopic, FetchableTopicResponse, ERROR, 12))
    [partition] = topic.partitions
    assert (topic.topic, partition.partition_index) == ("t", 9)
    assert (partition.high_watermark, partition.records) == (-1, b"")
    assert partition.log_start_offset == -1


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_many_elements_are_made_in_pieces(count):
    """Others have their turns before each."""
    topics = [AddPartitionsToTxnTopic(name="t", partitions=list(range(count)))]
    kinds = AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult
    [topic], counts = made(refusing_each(topics, *kinds, ERROR, 3))
    assert [one.partition_index for one in topic.results_by_partition] == list(range(count))
    assert {one.partition_error_code for one in topic.results_by_partition} <= {CODE}
    assert max(counts) <= PIECE
    assert sum(counts) == 1 + count


def test_the_elements_of_an_array_and_their_answers():
    """By their names, or because they are the only ones."""
    for key, field, answers in ((15, "groups", "groups"), (42, "groups_names", "results")):
        assert elements(field, *message_classes(key))[1] == answers
