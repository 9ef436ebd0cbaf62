"""The requests about share groups that cost most; a part of ``bench.worst_requests``.

Each names partitions, topics or groups that don't exist, as any client may.
"""

from kwire.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)


def _of(api, name: str, data: str):
    """A request about many partitions of one topic."""

    def request(count: int):
        rows = [api.PartitionData(partition=number) for number in range(count)]
        topic = getattr(api, f"{data}Data")(topic_id=bytes(16), partitions=rows)
        return getattr(api, f"{name}Request")(group_id="big", topics=[topic])

    return request


def _heartbeat(count):
    names = [f"name-{n}" for n in range(count)]
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="big", member_id="m", member_epoch=0, subscribed_topic_names=names
    )


def _describe(count):
    names = [f"name-{n}" for n in range(count)]
    return share_group_describe.ShareGroupDescribeRequest(group_ids=names)


def _describe_offsets(count):
    api = describe_share_group_offsets
    topic = api.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=list(range(count)))
    group = api.DescribeShareGroupOffsetsRequestGroup(group_id="big", topics=[topic])
    return api.DescribeShareGroupOffsetsRequest(groups=[group])


def _alter_offsets(count):
    api = alter_share_group_offsets
    rows = [api.AlterShareGroupOffsetsRequestPartition(partition_index=n) for n in range(count)]
    topic = api.AlterShareGroupOffsetsRequestTopic(topic_name="nothing", partitions=rows)
    return api.AlterShareGroupOffsetsRequest(group_id="big", topics=[topic])


def _delete_offsets(count):
    api = delete_share_group_offsets
    topics = [api.DeleteShareGroupOffsetsRequestTopic(topic_name=f"n-{n}") for n in range(count)]
    return api.DeleteShareGroupOffsetsRequest(group_id="big", topics=topics)


def _fetch(count: int):
    """A session with many partitions."""
    rows = [share_fetch.FetchPartition(partition_index=number) for number in range(count)]
    topic = share_fetch.FetchTopic(topic_id=bytes(16), partitions=rows)
    return share_fetch.ShareFetchRequest(
        group_id="big", member_id="m", max_bytes=1 << 20, max_records=500, topics=[topic]
    )


def _acknowledge(count: int):
    """Many acknowledgements of a session that doesn't exist."""
    rows = [
        share_acknowledge.AcknowledgePartition(
            partition_index=number,
            acknowledgement_batches=[share_acknowledge.AcknowledgementBatch(acknowledge_types=[1])],
        )
        for number in range(count)
    ]
    topic = share_acknowledge.AcknowledgeTopic(topic_id=bytes(16), partitions=rows)
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id="big", member_id="m", share_session_epoch=-1, topics=[topic]
    )


WORST_OF_SHARE = {
    "ShareGroupHeartbeat": _heartbeat,
    "ShareGroupDescribe": _describe,
    "DescribeShareGroupOffsets": _describe_offsets,
    "AlterShareGroupOffsets": _alter_offsets,
    "DeleteShareGroupOffsets": _delete_offsets,
    "ShareFetch": _fetch,
    "ShareAcknowledge": _acknowledge,
    "InitializeShareGroupState": _of(
        initialize_share_group_state, "InitializeShareGroupState", "InitializeState"
    ),
    "ReadShareGroupState": _of(read_share_group_state, "ReadShareGroupState", "ReadState"),
    "WriteShareGroupState": _of(write_share_group_state, "WriteShareGroupState", "WriteState"),
    "DeleteShareGroupState": _of(delete_share_group_state, "DeleteShareGroupState", "DeleteState"),
    "ReadShareGroupStateSummary": _of(
        read_share_group_state_summary, "ReadShareGroupStateSummary", "ReadStateSummary"
    ),
}
