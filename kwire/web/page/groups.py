"""``/groups`` and ``/group?id=…``: groups, members, assignments, lag, and why they rebalanced."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kwire.budget.slices import Slices
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE
from kwire.coordinator.group import GroupType
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kwire.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerDescription
from kwire.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kwire.protocol.messages.explain_group import ExplainGroupRequest, GroupEvent
from kwire.web.cross_loop_calls import Observed
from kwire.web.page import formats
from kwire.web.page.asking import ask_broker
from kwire.web.page.assignments import ByTopic, assignment_of, partitions_of
from kwire.web.page.charts import Chart, chart
from kwire.web.page.ends import Ends, OtherLeaders
from kwire.web.page.paging import PER_PAGE, page_of, paged, whole
from kwire.web.page.pipelines import pipeline_of
from kwire.web.page.sampler import GroupSample, Sample, Sampler
from kwire.web.page.share_groups import Queue, gather_queue
from kwire.web.page.site import PageError, Site
from kwire.web.page.streams_groups import (
    Subtopology,
    Tasks,
    describe_streams_group,
    read_by,
    subtopologies_of,
    tasks_of,
)

LAG_WINDOW_S = 3600
_DESCRIBE_VERSION = 6
_MISSING = {
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group, and there was none since the start of "
    "the broker",
    ErrorCode.NOT_COORDINATOR: "another broker is its coordinator, and shows it on its page",
}
_DESCRIBE_CONSUMER_VERSION = 1


class Member(NamedTuple):
    """A member: its ids and client, and its partitions by topic."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    epoch: int | None
    assignment: ByTopic
    target: ByTopic | None
    tasks: Tasks | None = None


class OffsetRow(NamedTuple):
    """A partition with a committed offset or with a member.

    The ends are None if neither this broker serves the partition nor another one answers for it.

    ``offset`` is None if a member has the partition and no offset is committed.
    """

    topic: str
    partition: int
    offset: int | None
    log_start: int | None
    end: int | None
    at_ms: int
    metadata: str
    is_pending: bool

    @property
    def lag(self) -> int | None:
        """How many records the group has not read: all of them without a committed offset."""
        read_to = self.log_start if self.offset is None else self.offset
        return None if self.end is None or read_to is None else max(0, self.end - read_to)

    @property
    def is_lost(self) -> bool:
        """Whether records that the group has not read are deleted."""
        if self.log_start is None or self.offset is None:
            return False
        return self.offset < self.log_start


class Facts(NamedTuple):
    """A group; ``state`` is empty if the group is gone and only its events are left.

    ``topology`` is that of a streams group, if it has told one.
    """

    kind: str
    state: str
    protocol: str
    epoch: int | None
    members: list[Member]
    offsets: list[OffsetRow]
    offsets_count: int
    events: list[GroupEvent]
    topology: Sequence[Subtopology] = ()


def routes(site: Site) -> list[Route]:
    """The routes of this view."""
    sampler = site.sampler

    async def groups(request: Request) -> Response:
        sample = await sampler.latest()
        rows = sorted(sample.groups, key=lambda group: group.group_id)
        if request.query_params.get("order") == "lag":
            rows.sort(key=lambda group: -(group.lag or 0))
        page = paged(request, rows, lambda group: group.group_id)
        order = request.query_params.get("order", "name")
        return site.render(request, "groups.html", title="Groups", page=page, order=order)

    async def group(request: Request) -> Response:
        group_id = request.query_params.get("id", "")
        first = (whole(request, "page", 1, 1) - 1) * PER_PAGE
        facts = await site.broker_calls.run(gather, group_id, first, sampler.leaders)
        sample = await sampler.latest()
        shown: dict[str, Any] = {
            "title": f"Group {formats.visible(group_id, 60)}",
            "group_id": group_id,
            "sample": _sample_of(sample, group_id),
            "chart": _chart(sampler, sample, group_id),
        }
        if isinstance(facts, Queue):
            return site.render(
                request,
                "share_group.html",
                **shown,
                queue=facts,
                page=paged(request, facts.partitions),
                members=paged(request, facts.workers, name="members"),
            )
        return site.render(
            request,
            "group.html",
            **shown,
            facts=facts,
            page=page_of(request, facts.offsets, facts.offsets_count),
            members=paged(request, facts.members, name="members"),
            owners=_owners(facts.members),
            pipeline=pipeline_of(one.metadata for one in facts.offsets),
        )

    async def as_json(request: Request) -> Response:
        group_id = request.query_params.get("id", "")
        sample = await sampler.latest()
        one, known = _chart(sampler, sample, group_id), _sample_of(sample, group_id)
        shown = {
            "lag": formats.number(known.lag if known else None),
            "state": known.state if known else "gone",
            "members": formats.number(known.members if known else 0),
        }
        return JSONResponse({"shown": shown, "charts": {one.name: one._asdict()}})

    return [
        site.route("/groups", groups),
        site.route("/group", group),
        site.route("/group.json", as_json),
    ]


def _sample_of(sample: Sample, group_id: str) -> GroupSample | None:
    return next((one for one in sample.groups if one.group_id == group_id), None)


def _chart(sampler: Sampler, sample: Sample, group_id: str) -> Chart:
    points = list(sampler.lags.get(group_id, ()))
    known = _sample_of(sample, group_id)
    if known is not None and known.lag is not None:
        points.append((sample.at_ms, known.lag))
    return chart("group_lag", "Lag", points, formats.number, sample.at_ms, LAG_WINDOW_S)


def _owners(members: list[Member]) -> dict[tuple[str, int], str]:
    """The client that has each partition."""
    return {
        (topic, index): member.client_id or member.member_id
        for member in members
        for topic, indexes in member.assignment
        for index in indexes
    }


async def gather(
    observed: Observed, group_id: str, first: int, leaders: OtherLeaders
) -> Facts | Queue:
    """A group, with its offsets from the ``first`` on; in the broker's event loop. KafkaError."""
    if "groups" not in vars(observed.broker):
        raise PageError(404, "there is no group yet")
    events = await ask_broker(observed, ExplainGroupRequest(group_id=group_id), 0)
    if events.error_code:
        what = _MISSING.get(events.error_code, "the group can't be described now")
        raise KafkaError(ErrorCode(events.error_code), what)
    if events.group_type == GroupType.SHARE.value:
        return await gather_queue(observed, group_id, events.events, leaders)
    facts = Facts(
        events.group_type, events.group_state, "", None, [], [], 0, list(reversed(events.events))
    )
    if facts.kind == GroupType.CONSUMER.value:
        facts = await _consumer(observed, group_id, facts)
    elif facts.kind == GroupType.STREAMS.value:
        facts = await _streams(observed, group_id, facts)
    elif facts.state:
        facts = await _classic(observed, group_id, facts)
    assigned: set[tuple[str, int]] = set()
    slices = Slices()
    for member in facts.members:
        await slices.give_way()
        assigned.update(partitions_of(member.assignment, observed.broker.image))
    offsets, count = await _offsets(observed, group_id, first, assigned, leaders)
    return facts._replace(offsets=offsets, offsets_count=count)


async def _classic(observed: Observed, group_id: str, facts: Facts) -> Facts:
    request = DescribeGroupsRequest(groups=[group_id])
    answer: Any = await ask_broker(observed, request, _DESCRIBE_VERSION)
    described: DescribedGroup = answer.groups[0]
    is_consumer = described.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = [
        Member(
            member.member_id,
            member.group_instance_id or "",
            member.client_id,
            member.client_host.lstrip("/"),
            None,
            assignment_of(member.member_assignment) if is_consumer else [],
            None,
        )
        for member in described.members
    ]
    return facts._replace(protocol=described.protocol_data, members=members)


async def _consumer(observed: Observed, group_id: str, facts: Facts) -> Facts:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    answer: Any = await ask_broker(observed, request, _DESCRIBE_CONSUMER_VERSION)
    described: ConsumerDescription = answer.groups[0]
    members = [
        Member(
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.client_host.lstrip("/"),
            member.member_epoch,
            [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions],
            [(one.topic_name, one.partitions) for one in member.target_assignment.topic_partitions],
        )
        for member in described.members
    ]
    return facts._replace(
        protocol=described.assignor_name, epoch=described.group_epoch, members=members
    )


async def _streams(observed: Observed, group_id: str, facts: Facts) -> Facts:
    described = await describe_streams_group(observed, group_id)
    topology = subtopologies_of(described)
    topics = {one.subtopology_id: one.read_topics for one in topology}
    members = [
        Member(
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.client_host.lstrip("/"),
            member.member_epoch,
            read_by(tasks_of(member.assignment), topics),
            None,
            tasks_of(member.assignment),
        )
        for member in described.members
    ]
    return facts._replace(
        protocol=described.assignor_name or "",
        epoch=described.group_epoch,
        members=members,
        topology=topology,
    )


async def _offsets(
    observed: Observed,
    group_id: str,
    first: int,
    assigned: set[tuple[str, int]],
    leaders: OtherLeaders,
) -> tuple[list[OffsetRow], int]:
    """A page of the partitions that a group has offsets for or reads, and how many there are."""
    broker, slices = observed.broker, Slices()
    groups = broker.groups.coordinator_or_empty(group_id).coordinator
    offsets = groups.offsets.of(group_id)
    held = sorted(assigned.union((topic, index) for topic, index, _ in offsets.items()))
    first = min(first, max(0, len(held) - 1) // PER_PAGE * PER_PAGE)
    shown = held[first : first + PER_PAGE]
    ends = await leaders.ends(broker, shown)
    rows = []
    for topic, index in shown:
        await slices.give_way()
        partition = broker.partition_if_served(topic, index)
        if partition is not None:
            ends[topic, index] = Ends(partition.log.log_start_offset, partition.high_watermark)
        known = ends.get((topic, index))
        committed = offsets.get(topic, index)
        rows.append(
            OffsetRow(
                topic,
                index,
                None if committed is None else committed.offset,
                None if known is None else known.log_start,
                None if known is None else known.end,
                -1 if committed is None else committed.commit_timestamp_ms,
                "" if committed is None else committed.metadata,
                groups.offsets.is_pending(group_id, topic, index),
            )
        )
    return rows, len(held)
