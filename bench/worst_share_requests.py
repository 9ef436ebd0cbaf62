"""The requests about share groups that cost most; a part of ``bench.worst_requests``.

Each names partitions of a topic that doesn't exist, as any client may.
"""

from kwire.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)


def _of(api, name: str, data: str):
    """A request about many partitions of one topic."""

    def request(count: int):
        rows = [api.PartitionData(partition=number) for number in range(count)]
        topic = getattr(api, f"{data}Data")(topic_id=bytes(16), partitions=rows)
        return getattr(api, f"{name}Request")(group_id="big", topics=[topic])

    return request


WORST_OF_SHARE = {
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
