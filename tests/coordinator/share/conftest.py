"""Text scripts for share groups: what members do, time that passes, and what comes of it.

The language is that of the scripts of consumer groups (``tests.coordinator.consumer.conftest``), as
far as share groups have the same. Besides: ``states asked`` shows the partitions whose states the
group waits for, ``states come`` and ``states fail PARTITION…`` answer it, ``states come_at_once``
answers from now on before anything else happens. ``records`` shows the types of the records since
the last time.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.effects import Effects, StateWork
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.records import record_type
from kwire.coordinator.settings import GroupSettings
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.settings import ShareSettings
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.coordinator.consumer.notation import (
    GROUP,
    ScriptMember,
    parse_partitions,
    show_partitions,
    topic_id,
    topic_name,
)
from tests.coordinator.group_scripts import GroupsScript
from tests.coordinator.scripts import Words

NO_LUCK = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no luck")


class ShareScript(GroupsScript):
    """A coordinator whose log is a list, its topics, and the members of one share group."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ShareSettings(**{"assignment_interval_ms": 0, **settings})
        super().__init__()
        self.members: dict[str, ScriptMember] = {}
        self.work: list[tuple[GroupCoordinator, StateWork]] = []
        self.comes_at_once = False
        self.shown = 0
        self.coordinator = self.load()

    @property
    def group(self) -> ShareGroup:
        """The group, as a share group."""
        group = self.coordinator.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    # Members

    def do_join(self, plain: list[str], given: Words) -> None:
        """A client joins."""
        [name] = plain
        self.members[name] = ScriptMember()
        self._beat(name, {"topics": "t", "epoch": "0", **given})

    def do_beat(self, plain: list[str], given: Words) -> None:
        """A client goes on."""
        [name] = plain
        self._beat(name, given)

    def do_leave(self, plain: list[str], given: Words) -> None:
        """A client leaves."""
        [name] = plain
        self._beat(name, {**given, "epoch": "-1"})

    def _beat(self, name: str, given: Words) -> None:
        member = self.members.setdefault(name, ScriptMember())
        topics = given.get("topics")
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=given.get("id", name),
            member_epoch=int(given.get("epoch", member.epoch)),
            rack_id=given.get("rack"),
            subscribed_topic_names=None if topics is None else [t for t in topics.split(",") if t],
        )
        client = Client(name, "/127.0.0.1", 1)
        self.take(self.coordinator.share.heartbeat(request, client, name, self.now_ms))

    # Everything else

    def do_states(self, plain: list[str], given: Words) -> None:
        """Show or answer what the group waits for."""
        verb, *partitions = plain
        if verb == "come_at_once":
            self.comes_at_once = True
            return
        if verb == "asked":
            for _, work in self.work:
                starts = ", ".join(f"{topic_name(t)}-{i} {o}" for (t, i), o in work.starts.items())
                self.trace.append(f"epoch {work.state_epoch}: {starts}")
            return
        failed = parse_partitions(partitions)
        failures = {(topic_id(t), i): NO_LUCK for t, some in failed.items() for i in some}
        work, self.work = self.work, []
        for coordinator, one in work:
            if coordinator is self.coordinator:
                self.take(one.hand_in(failures, self.now_ms))
            else:
                self.trace.append("nobody takes it")

    def do_jobs(self, plain: list[str], given: Words) -> None:
        """Long work is held back from now on (``hold``), done and handed in, or fails."""
        if plain == ["hold"]:
            self.holds_jobs = True
            return
        self.finish_jobs(fail=plain == ["fail"])

    def do_records(self, plain: list[str], given: Words) -> None:
        """The types of the records since the last time; ``-14`` is a tombstone."""
        new, self.shown = self.log[self.shown :], len(self.log)
        kinds = [record_type(one.key or b"") * (1 if one.value else -1) for one in new]
        self.trace.append(" ".join(map(str, kinds)) or "none")

    def do_show(self, plain: list[str], given: Words) -> None:
        """The group as it is."""
        if GROUP not in self.coordinator.groups:
            self.trace.append("nothing")
            return
        group = self.group
        self.trace.append(f"{group.state_name} epoch {group.epoch} target {group.target_epoch}")
        for member in group.members.values():
            self.trace.append(
                f"{member.member_id} epoch {member.epoch} {show_partitions(member.assigned)} "
                f"-> {show_partitions(group.target_of(member.member_id))}"
            )
        for name in ("initializing", "initialized"):
            topics = getattr(group.states, name)
            if topics:
                shown = show_partitions({t: one.partitions for t, one in topics.items()})
                self.trace.append(f"{name} {shown}")
        if group.states.deleting:
            self.trace.append(f"deleting {' '.join(sorted(group.states.deleting.values()))}")

    def new_coordinator(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""
        around = Surroundings(
            lambda: self.topics,
            lambda _: ConsumerSettings(),
            BrokerHeartbeats(),
            RegexMatches(),
            lambda _: self.settings,
        )
        return GroupCoordinator(GroupSettings(), self.new_id, around)

    def take(self, effects: Effects) -> None:
        """What the runtime does; the states are asked for as well."""
        super().take(effects)
        for work in () if self.writes_fail and effects.records else effects.state_work:
            if self.comes_at_once:
                self.take(work.hand_in({}, self.now_ms))
            else:
                self.work.append((self.coordinator, work))

    def answer(self, name: str, response: ShareGroupHeartbeatResponse) -> None:
        """Note an answer, and let the client remember what it says."""
        if response.error_code:
            self.trace.append(f"{name}: {ErrorCode(response.error_code).name}")
            return
        self.members[name].epoch = response.member_epoch
        has = ""
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            has = f" has {show_partitions({t.topic_id: t.partitions for t in topics})}"
        self.trace.append(f"{name}: epoch {response.member_epoch}{has}")


@pytest.fixture(scope="session")
def new_script() -> Callable[..., ShareScript]:
    """Makes scripts; keyword arguments are ``ShareSettings``."""
    return ShareScript


@pytest.fixture
def script() -> ShareScript:
    """A script in which every change is assigned at once."""
    return ShareScript()
