"""Text scripts for consumer groups: what members do, time that passes, and what comes of it.

A script is a list of commands, each followed by its trace, indented. Members are named by their
ids; partitions are written ``t:0,1``; a member reports what it was last told to have, unless
``owns=`` says otherwise (``-`` for nothing; ``owns=?`` reports nothing at all).

Commands of members of the consumer protocol: ``join NAME topics=…``, ``beat NAME``, ``leave NAME``,
``away NAME`` (a static member, for a while), each with ``key=value`` for what the request says;
``sees=`` names the topics that the client may see, all unless it is given. Of
members of the classic protocol: ``old_join``, ``old_sync``, ``old_beat``, ``old_leave``. Besides:
``topics NAME=PARTITIONS…``, ``commit NAME PARTITION…``, ``after SECONDS``, ``restart``,
``writes fail`` or ``work``, ``show``. Work that takes long is done at once, unless ``holds_jobs``:
then it is begun by the command that leads to it, and handed in by ``work``, or fails by
``work fails``.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.settings import GroupSettings
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coordinator.consumer.classic_commands import ClassicCommands
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


class Visible(frozenset[str]):
    """What a client sees: of topics these."""

    def __call__(self, names: frozenset[str]) -> frozenset[str]:
        return names & self


def _visible(given: Words) -> Visible | None:
    return Visible(given["sees"].split(",")) if "sees" in given else None


class ConsumerScript(ClassicCommands, GroupsScript):
    """A coordinator whose log is a list, its topics, and the members of one group."""

    initial_rebalance_delay_ms = 0

    def __init__(self, **settings: Any) -> None:
        self.settings = ConsumerSettings(**{"assignment_interval_ms": 0, **settings})
        super().__init__()
        self.members: dict[str, ScriptMember] = {}
        self.date_ahead_ms = 0
        self.coordinator = self.load()

    def note_refusal(self, who: str, error: KafkaError) -> None:
        """A command was refused; who it was stands in the command."""
        self.trace.append(error.code.name)

    def member(self, name: str) -> ScriptMember:
        """The client of this name."""
        return self.members.setdefault(name, ScriptMember())

    @property
    def group(self) -> ConsumerGroup:
        """The group, as a consumer group."""
        group = self.coordinator.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    # Members of the consumer protocol

    def do_join(self, plain: list[str], given: Words) -> None:
        """A client joins, without partitions."""
        [name] = plain
        member = self.member(name)
        member.member_id = given.pop("id", member.member_id or name)
        member.epoch, member.owned = 0, {}
        given = {"rebalance": "60", "owns": "-", **given}
        if "regex" not in given:
            given.setdefault("topics", "t")
        self._beat(name, given)

    def do_beat(self, plain: list[str], given: Words) -> None:
        """A client goes on."""
        [name] = plain
        self._beat(name, given)

    def do_away(self, plain: list[str], given: Words) -> None:
        """A static member leaves for a while."""
        [name] = plain
        self._beat(name, {**given, "epoch": "-2", "owns": "?"})

    def do_leave(self, plain: list[str], given: Words) -> None:
        """A client leaves."""
        [name] = plain
        self._beat(name, {**given, "epoch": "-1", "owns": "?"})

    def _beat(self, name: str, given: Words) -> None:
        member = self.member(name)
        topics = given.get("topics")
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=given.get("id", member.member_id),
            member_epoch=int(given.get("epoch", member.epoch)),
            instance_id=given.get("instance"),
            rack_id=given.get("rack"),
            rebalance_timeout_ms=int(float(given.get("rebalance", -0.001)) * 1000),
            subscribed_topic_names=None if topics is None else [t for t in topics.split(",") if t],
            subscribed_topic_regex=given.get("regex"),
            server_assignor=given.get("assignor"),
            topic_partitions=self._reported(member, given.get("owns")),
        )
        client = Client(name, "/127.0.0.1", int(given.get("version", 1)), _visible(given))
        now_ms = self.now_ms
        self.take(self.coordinator.consumer.heartbeat(request, client, (name, "beat"), now_ms))

    def _reported(self, member: ScriptMember, owns: str | None) -> list[TopicPartitions] | None:
        if owns == "?":
            return None
        owned = member.owned if owns is None else parse_partitions(owns.split("+"))
        return [
            TopicPartitions(topic_id=topic_id(name), partitions=sorted(indexes))
            for name, indexes in owned.items()
        ]

    # Everything else

    def do_commit(self, plain: list[str], given: Words) -> None:
        """A client commits, at its epoch or another; ``offsets may be committed`` if so."""
        name, *partitions = plain
        member = self.member(name)
        epoch = int(given.get("epoch", member.epoch))
        version = int(given.get("version", 10))
        committer = Committer(member.member_id, epoch, given.get("instance"), version)
        self.coordinator.committed.check_commit(GROUP, committer, self.now_ms)
        for topic, indexes in parse_partitions(partitions).items():
            for index in indexes:
                self.coordinator.committed.check_commit_of(
                    GROUP, committer, topic, topic_id(topic), index
                )
        self.trace.append("may commit")

    def do_fetch(self, plain: list[str], given: Words) -> None:
        """A client fetches offsets."""
        [name] = plain
        member = self.member(name)
        epoch = int(given.get("epoch", member.epoch))
        self.coordinator.committed.check_fetch(GROUP, member.member_id, epoch)
        self.trace.append("may fetch")

    def do_show(self, plain: list[str], given: Words) -> None:
        """The group as it is."""
        group = self.coordinator.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            kind = "nothing" if group is None else f"{group.kind.value} {group.state_name}"
            self.trace.append(kind)
            return
        self.trace.append(f"{group.state_name} epoch {group.epoch} target {group.target_epoch}")
        for member in group.members.values():
            revoking = f" revoking {show_partitions(member.revoking)}" if member.revoking else ""
            self.trace.append(
                f"{member.member_id} epoch {member.epoch} {member.state.name} "
                f"{show_partitions(member.assigned)}{revoking} "
                f"-> {show_partitions(group.target_of(member.member_id))}"
            )

    def new_coordinator(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""
        around = Surroundings(
            lambda: self.topics, lambda _: self.settings, BrokerHeartbeats(), RegexMatches()
        )
        settings = GroupSettings(initial_rebalance_delay_ms=self.initial_rebalance_delay_ms)
        return GroupCoordinator(
            settings, self.new_id, around, date_ms=lambda: self.now_ms + self.date_ahead_ms
        )

    def note(self, effects: Effects) -> None:
        """What is said of a classic group is for its own tests."""
        if isinstance(self.coordinator.groups.get(GROUP), ConsumerGroup):
            super().note(effects)

    def do_work(self, plain: list[str], given: Words) -> None:
        """The work that was begun is done, in order, and handed in; or it fails."""
        self.finish_jobs(fail=plain == ["fails"])

    def answer(self, waiter: Any, response: Any) -> None:
        """Note an answer, and let the client remember what it says."""
        name, verb = waiter
        described = getattr(self, f"_answer_{verb}")(name, response)
        self.trace.append(f"{name}: {described}" if name else described)

    def _answer_beat(self, name: str, response: ConsumerGroupHeartbeatResponse) -> str:
        if response.error_code:
            return ErrorCode(response.error_code).name
        member = self.member(name)
        member.epoch = response.member_epoch
        if response.assignment is None:
            return f"epoch {response.member_epoch}"
        topics = response.assignment.topic_partitions
        has = {t.topic_id: t.partitions for t in topics}
        member.owned = {topic_name(t): set(p) for t, p in has.items()}
        return f"epoch {response.member_epoch} has {show_partitions(has)}"


@pytest.fixture(scope="session")
def new_script() -> Callable[..., ConsumerScript]:
    """Makes scripts; keyword arguments are ``ConsumerSettings``."""
    return ConsumerScript


@pytest.fixture
def script() -> ConsumerScript:
    """A script in which every change is assigned at once."""
    return ConsumerScript()
