"""A streams group on the page (KIP-1071): its topology, and which member has which tasks.

A task is a partition of a subtopology: it reads this partition of each topic that the subtopology
reads from. A standby task keeps a copy of a task's state; a warm-up task gets one to take it over.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    StreamsGroupDescribeRequest,
    TaskIds,
)
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.asking import ask_broker
from kwire.web.page.assignments import ByTopic

_VERSION = 1


class Subtopology(NamedTuple):
    """A subtopology; ``read_topics`` are its sources and the topics of its repartitions."""

    subtopology_id: str
    read_topics: list[str]
    written_topics: list[str]
    changelogs: list[str]


class Tasks(NamedTuple):
    """A member's tasks: the partitions of each subtopology."""

    active: ByTopic
    standby: ByTopic
    warmup: ByTopic


async def describe_streams_group(observed: Observed, group_id: str) -> DescribedGroup:
    """What the coordinator says; in the broker's event loop. KafkaError."""
    request = StreamsGroupDescribeRequest(group_ids=[group_id])
    answer: Any = await ask_broker(observed, request, _VERSION)
    described: DescribedGroup = answer.groups[0]
    if described.error_code:
        raise KafkaError(ErrorCode(described.error_code), described.error_message or "")
    return described


def subtopologies_of(group: DescribedGroup) -> list[Subtopology]:
    """The subtopologies; none if no member has told a topology yet."""
    found = group.topology.subtopologies if group.topology is not None else None
    return [
        Subtopology(
            one.subtopology_id,
            [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)],
            list(one.repartition_sink_topics),
            [topic.name for topic in one.state_changelog_topics],
        )
        for one in found or ()
    ]


def tasks_of(assignment: Assignment) -> Tasks:
    """The tasks in an assignment."""
    return Tasks(
        _by_subtopology(assignment.active_tasks),
        _by_subtopology(assignment.standby_tasks),
        _by_subtopology(assignment.warmup_tasks),
    )


def read_by(tasks: Tasks, topics: Mapping[str, Iterable[str]]) -> ByTopic:
    """The partitions that active tasks read; ``topics`` has those of each subtopology."""
    return [
        (topic, partitions)
        for subtopology_id, partitions in tasks.active
        for topic in topics.get(subtopology_id, ())
    ]


def _by_subtopology(tasks: Iterable[TaskIds]) -> ByTopic:
    return [(one.subtopology_id, one.partitions) for one in tasks]
