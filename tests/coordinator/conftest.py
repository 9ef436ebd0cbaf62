"""Text scripts for the group coordinator: what members do, time that passes, and what comes of it.

A script is a list of commands, each followed by its trace, indented::

    join a
        a join: MEMBER_ID_REQUIRED a-1
    join a
        a join: generation 1 range leader a-1 [a-1]

``run`` carries the commands out and compares the whole text, so that a difference shows in place.

Commands: ``ask NAME…`` (who coordinates the group), ``join NAME``,
``sync NAME [MEMBER=ASSIGNMENT…]``, ``beat NAME``, ``leave NAME…``,
``commit NAME TOPIC-PARTITION=OFFSET…`` (``-`` for a client that is no member), ``delete``,
``after SECONDS``, ``expire`` (old offsets), ``restart``, ``writes fail`` or ``work``, ``show``,
``why`` (what has happened).
A client remembers its member id and generation; ``key=value`` changes what it sends.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.records import (
    GROUP_METADATA_TYPE,
    CoordinatorRecord,
    GroupMetadataValue,
    OffsetCommitValue,
    parse_offset_commit_key,
    parse_value,
    record_type,
)
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.coordinator.group_scripts import GROUP, GroupsScript
from tests.coordinator.scripts import START_MS, Words


class ScriptClient:
    """What a client remembers between its requests."""

    def __init__(self) -> None:
        self.member_id = ""
        self.generation = -1


class GroupScript(GroupsScript):
    """A coordinator whose log is a list, and the clients of one group."""

    def __init__(self, **settings: int) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        super().__init__()
        self.was_refused = False
        self.told = 0
        self.clients: dict[str, ScriptClient] = {}
        self.coordinator = self.load()

    def command(self, line: str) -> list[str]:
        """Carry one command out; its trace."""
        self.was_refused = False
        return super().command(line)

    def note_refusal(self, who: str, error: KafkaError) -> None:
        """A command was refused."""
        self.was_refused = True
        super().note_refusal(who, error)

    def client(self, name: str) -> ScriptClient:
        """The client of this name."""
        return self.clients.setdefault(name, ScriptClient())

    def do_join(self, plain: list[str], given: Words) -> None:
        """A client joins, with the id it was given before unless ``id=`` says another."""
        [name] = plain
        subscription = given.get("topics", "t").encode()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(given.get("session", 10)) * 1000,
            rebalance_timeout_ms=round(float(given.get("rebalance", 60)) * 1000),
            member_id=given.get("id", self.client(name).member_id),
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=protocol, metadata=subscription)
                for protocol in given.get("protocols", "range").split(",")
                if protocol
            ],
        )
        asks = Client(name, "/127.0.0.1", int(given.get("version", 9)))
        self.take(self.coordinator.classic.join(request, asks, (name, "join"), self.now_ms))

    def do_ask(self, plain: list[str], given: Words) -> None:
        """Clients ask who coordinates the group, each on a connection of its own."""
        for name in plain:
            self.coordinator.classic.announce(GROUP, hash(name), self.now_ms)

    def do_sync(self, plain: list[str], given: Words) -> None:
        """A client asks for its assignment; ``member=assignment`` where it leads."""
        [name] = plain
        client = self.client(name)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=int(given.pop("generation", client.generation)),
            member_id=given.pop("id", client.member_id),
            group_instance_id=given.pop("instance", None),
            protocol_type=given.pop("type", None),
            protocol_name=given.pop("protocol", None),
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment.encode())
                for member_id, assignment in given.items()
            ],
        )
        self.take(self.coordinator.classic.sync(request, (name, "sync"), self.now_ms))

    def do_beat(self, plain: list[str], given: Words) -> None:
        """A client sends a heartbeat."""
        [name] = plain
        client = self.client(name)
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=int(given.get("generation", client.generation)),
            member_id=given.get("id", client.member_id),
            group_instance_id=given.get("instance"),
        )
        self.coordinator.classic.heartbeat(request, self.now_ms)
        self.trace.append(f"{name} beat: ok")

    def do_leave(self, plain: list[str], given: Words) -> None:
        """Clients leave in one request; ``instance=`` names a static member alone."""
        leaving = [MemberIdentity(member_id=self.client(name).member_id) for name in plain]
        if "instance" in given:
            leaving.append(MemberIdentity(member_id="", group_instance_id=given["instance"]))
        self.take(self.coordinator.classic.leave(GROUP, leaving, ("", "leave"), self.now_ms))

    def do_commit(self, plain: list[str], given: Words) -> None:
        """A client commits offsets, as a member of its generation unless its name is ``-``."""
        [name] = plain
        client = self.client(name)
        generation = int(given.pop("generation", client.generation))
        committer = Committer(
            client.member_id,
            generation,
            given.pop("instance", None),
            api_version=9,
            is_transactional=bool(given.pop("transactional", "")),
        )
        self.coordinator.committed.check_commit(GROUP, committer, self.now_ms)
        keep_s = int(given.pop("keep", -1))
        expires_ms = -1 if keep_s < 0 else self.now_ms + keep_s * 1000
        effects = Effects()
        for partition, offset in given.items():
            topic, index = partition.rsplit("-", 1)
            value = OffsetCommitValue(
                offset=int(offset), commit_timestamp=self.now_ms, expire_timestamp=expires_ms
            )
            self.coordinator.committed.add_record(GROUP, topic, int(index), value, effects)
        self.take(effects)

    def do_expire(self, plain: list[str], given: Words) -> None:
        """Old offsets are looked for."""
        for effects in self.coordinator.expire_offsets(lambda at_ms: self.now_ms - at_ms):
            self.take(effects)

    def do_show(self, plain: list[str], given: Words) -> None:
        """The group as it is."""
        group = self.coordinator.groups.get(GROUP)
        state = self.coordinator.state_of(GROUP)
        members = _members(group) if group else ""
        generation = f" generation {group.generation}" if group else ""
        self.trace.append(f"{state or 'unknown'}{generation}{members}")
        self.trace += [
            f"offset {topic}-{partition}={committed.offset}"
            for topic, partition, committed in sorted(self.coordinator.offsets.of(GROUP).items())
        ]

    def do_why(self, plain: list[str], given: Words) -> None:
        """What has happened to the group since this was asked last, and when."""
        events = self.coordinator.history.events_of(GROUP)
        self.trace += [
            f"{(event.at_ms - START_MS) / 1000:g}s {event.text}" for event in events[self.told :]
        ]
        self.told = len(events)

    def new_coordinator(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""
        return GroupCoordinator(self.settings, self.new_id)

    def note(self, effects: Effects) -> None:
        """What is said of the group is asked with ``why``."""

    def note_record(self, written: CoordinatorRecord) -> None:
        """Add a record to the trace."""
        self.trace.append(f"record {_describe_record(written.key, written.value)}")

    def answer(self, waiter: Any, response: Any) -> None:
        """Note an answer, and let the client remember what it says."""
        name, verb = waiter
        self.trace.append(f"{name} {verb}: {self._describe(name, response)}".strip())

    def _describe(self, name: str, response: Any) -> str:
        error = ErrorCode(response.error_code).name
        if isinstance(response, LeaveGroupResponse):
            return " ".join(
                f"{m.member_id or m.group_instance_id or '?'} {ErrorCode(m.error_code).name}"
                for m in response.members
            )
        if isinstance(response, SyncGroupResponse):
            return error if response.error_code else response.assignment.decode() or "nothing"
        assert isinstance(response, JoinGroupResponse)
        if response.member_id:
            self.client(name).member_id = response.member_id
        if response.error_code:
            return f"{error} {response.member_id}".strip()
        self.client(name).generation = response.generation_id
        members = " ".join(m.member_id for m in response.members)
        skips = " skips the assignment" if response.skip_assignment else ""
        known = f" [{members}]" if members else ""
        return (
            f"generation {response.generation_id} {response.protocol_name} "
            f"leader {response.leader}{known}{skips}"
        )


def _members(group: ClassicGroup) -> str:
    shown = [
        f"{m.member_id}{'*' if m.member_id == group.leader else ''}={m.assignment.decode()}"
        for m in group.members.values()
    ]
    pending = [f"({member_id})" for member_id in group.pending_joins]
    return "".join(f" {member}" for member in shown + pending)


def _describe_record(key: bytes, value: bytes | None) -> str:
    if record_type(key) != GROUP_METADATA_TYPE:
        parsed = parse_offset_commit_key(key)
        where = f"{parsed.topic}-{parsed.partition}"
        if value is None:
            return f"{where} gone"
        return f"{where}={parse_value(OffsetCommitValue, value).offset}"
    if value is None:
        return "group gone"
    group = parse_value(GroupMetadataValue, value)
    members = "".join(f" {m.member_id}={m.assignment.decode()}" for m in group.members)
    return f"generation {group.generation} {group.protocol or 'empty'}{members}"


@pytest.fixture(scope="session")
def new_script() -> Callable[..., GroupScript]:
    """Makes scripts; keyword arguments are the coordinator's settings, times in ms."""
    return GroupScript


@pytest.fixture
def script() -> GroupScript:
    """A script with kwire's own settings: no initial delay."""
    return GroupScript()
