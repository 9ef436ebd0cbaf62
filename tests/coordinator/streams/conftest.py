"""A streams group without a broker: members that send heartbeats, and a log that is a list."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.consumer.topics import Topic, TopicSet
from kwire.coordinator.effects import Effects, Job
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.records import record_type
from kwire.coordinator.settings import GroupSettings
from kwire.coordinator.streams.group import StreamsGroup
from kwire.coordinator.streams.settings import StreamsSettings
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.record.records import Record
from tests.coordinator.consumer.notation import topic_id
from tests.coordinator.written import take_in

GROUP = "app"
START_MS = 1_000_000

SUBTOPOLOGY = "0"
SOURCE = "source"
CHANGELOG = "app-store-changelog"


def topology(*, epoch: int = 0, stateful: bool = False, source: str = SOURCE) -> Topology:
    """A topology of one subtopology, which reads one topic."""
    changelogs = [TopicInfo(name=CHANGELOG)] if stateful else []
    one = Subtopology(
        subtopology_id=SUBTOPOLOGY, source_topics=[source], state_changelog_topics=changelogs
    )
    return Topology(epoch=epoch, subtopologies=[one])


def tasks(partitions: Iterable[int]) -> list[TaskIds]:
    """Tasks of the only subtopology."""
    listed = list(partitions)
    return [TaskIds(subtopology_id=SUBTOPOLOGY, partitions=listed)] if listed else []


def partitions_of(listed: list[TaskIds] | None) -> list[int] | None:
    """The partitions of tasks of the only subtopology; None if there is no list."""
    if listed is None:
        return None
    assert all(one.subtopology_id == SUBTOPOLOGY for one in listed)
    return [partition for one in listed for partition in one.partitions]


def refused(code: ErrorCode, match: str = ""):
    """Expects an answer with this error."""

    class Refused:
        def __enter__(self):
            self.raises = pytest.raises(KafkaError)
            self.caught = self.raises.__enter__()
            return self.caught

        def __exit__(self, *exc):
            swallowed = self.raises.__exit__(*exc)
            if swallowed:
                assert self.caught.value.code == code, self.caught.value
                assert match in (self.caught.value.message or "")
            return swallowed

    return Refused()


class StreamsApplication:
    """A coordinator, its topics, and the members of one group; settings are ``StreamsSettings``.

    A member remembers its epoch and the tasks that it was given, as Kafka Streams does.
    """

    def __init__(self, **settings: Any) -> None:
        defaults = {"initial_rebalance_delay_ms": 0, "assignment_interval_ms": 0}
        self.settings = StreamsSettings(**{**defaults, **settings})
        self.now_ms = START_MS
        self.log: list[Record] = []
        self.jobs: list[Job] = []
        self.holds_jobs = False
        self.writes_fail = False
        self.epochs: dict[str, int] = {}
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}
        self.topics = TopicSet()
        self.last = StreamsGroupHeartbeatResponse()
        self.set_topics({SOURCE: 4})
        self.load()

    # The cluster and the coordinator

    def set_topics(self, counts: dict[str, int]) -> None:
        """The topics of the cluster, with their numbers of partitions."""
        self.topics = TopicSet(
            [Topic(name, topic_id(name), count) for name, count in counts.items()],
            self.topics.revision + 1,
        )

    def load(self) -> None:
        """Another coordinator loads what was written."""
        around = Surroundings(
            lambda: self.topics,
            lambda _: ConsumerSettings(),
            BrokerHeartbeats(),
            RegexMatches(),
            streams_settings_of=lambda _: self.settings,
        )
        self.coordinator = GroupCoordinator(GroupSettings(), lambda: "1", around)
        for record in self.log:
            self.coordinator.replay(record, -1, self.now_ms, loading=True)
        self.take(self.coordinator.begin(self.now_ms))

    @property
    def group(self) -> StreamsGroup:
        """The group."""
        return self.coordinator.streams.group(GROUP)

    def wait(self, seconds: float) -> None:
        """Time passes; what becomes due is done when it is."""
        until_ms = self.now_ms + round(seconds * 1000)
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= until_ms:
            self.now_ms = max(due, self.now_ms)
            self.take(self.coordinator.tick(self.now_ms))
        self.now_ms = until_ms

    def take(self, effects: Effects) -> None:
        """What the runtime does: write, replay, answer; or go back."""
        if self.writes_fail and effects.records:
            self.take(self.coordinator.undo(effects, self.now_ms))
            return
        for written in effects.records:
            self.log.append(take_in(self.coordinator, written, len(self.log), self.now_ms))
        for member_id, response in effects.replies:
            if isinstance(response, StreamsGroupHeartbeatResponse):
                self._answered(str(member_id), response)
        self.jobs += effects.jobs
        if not self.holds_jobs:
            self.finish_jobs()

    def finish_jobs(self) -> None:
        """Do the work that takes long, and hand it in."""
        jobs, self.jobs = self.jobs, []
        for job in jobs:
            self.take(job.hand_in(job.work(), self.now_ms))

    def records_since(self, count: int) -> list[int]:
        """The types of the records after so many; those of tombstones are negative."""
        return [record_type(r.key or b"") * (1 if r.value else -1) for r in self.log[count:]]

    # Members

    def _answered(self, member_id: str, response: StreamsGroupHeartbeatResponse) -> None:
        self.last = response
        self.epochs[member_id] = response.member_epoch
        active = partitions_of(response.active_tasks)
        if active is not None:
            self.active[member_id] = active
            self.standby[member_id] = partitions_of(response.standby_tasks) or []

    def join(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A member joins."""
        self.active[member_id], self.standby[member_id] = [], []
        fields = {"topology": topology(), "process_id": member_id, **fields}
        return self.beat(member_id, **{"member_epoch": 0, "rebalance_timeout_ms": 60_000, **fields})

    def beat(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A member goes on; it reports the tasks that it was given last."""
        given = {
            "group_id": GROUP,
            "member_id": member_id,
            "member_epoch": self.epochs.get(member_id, 0),
            "active_tasks": tasks(self.active.get(member_id, [])),
            "standby_tasks": tasks(self.standby.get(member_id, [])),
            "warmup_tasks": [],
            **fields,
        }
        client = Client(member_id, "/127.0.0.1", 1)
        request = StreamsGroupHeartbeatRequest(**given)
        self.take(self.coordinator.streams.heartbeat(request, client, member_id, self.now_ms))
        return self.last

    def leave(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """A member leaves."""
        none = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"))
        return self.beat(member_id, **{"member_epoch": -1, **none, **fields})

    def settle(self, *member_ids: str) -> None:
        """The members send heartbeats until the group is stable."""
        for _ in range(10):
            for member_id in member_ids:
                self.beat(member_id)
            if self.group.state_name == "Stable":
                return
        raise AssertionError(self.group.state_name)

    def statuses(self) -> list[int]:
        """The codes of the statuses in the last answer."""
        return [one.status_code for one in self.last.status or ()]


@pytest.fixture(scope="session")
def new_application() -> Callable[..., StreamsApplication]:
    """Makes applications; keyword arguments are ``StreamsSettings``."""
    return StreamsApplication


@pytest.fixture
def app() -> StreamsApplication:
    """An application in which every change is assigned at once; its source has 4 partitions."""
    return StreamsApplication()
