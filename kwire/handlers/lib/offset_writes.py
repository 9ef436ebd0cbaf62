"""Writing the offsets of a commit that was accepted, in or outside of a transaction."""

from collections.abc import Sequence
from typing import Any

from kwire.broker.groups import LoadedCoordinator
from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.records import OffsetCommitValue
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext


def write_offsets(
    request: Any,
    context: RequestContext,
    home: LoadedCoordinator,
    accepted: Sequence[tuple[Any, str, OffsetCommitValue]],
    effects: Effects,
    *,
    is_transactional: bool = False,
) -> None:
    """Write a group's offsets; the error of one of them goes into its partition of the answer.

    ``accepted`` are partitions of the answer, each with its topic's name and what is committed.
    Raises KafkaError if the group refuses the client, or the records can't be written.
    """
    group_id, committed = request.group_id, home.coordinator.committed
    committer = Committer(
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id,
        context.api_version,
        is_transactional,
    )
    committed.check_commit(group_id, committer, context.broker.groups.now_ms())
    for answer, topic, value in accepted:
        index = answer.partition_index
        committed.check_commit_of(group_id, committer, topic, value.topic_id, index)
    for answer, topic, value in accepted:
        try:
            committed.add_record(group_id, topic, answer.partition_index, value, effects)
        except KafkaError as error:
            answer.error_code = error.code
    home.carry_out(effects)
