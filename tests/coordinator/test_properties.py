"""Any interleaving of members, time, failing writes and restarts keeps what is promised."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.records import GROUP_METADATA_TYPE, record_type
from kwire.errors import ErrorCode

NAMES = ["a", "b", "c", "s", "t"]
INSTANCES = {"s": "instance=i", "t": "instance=i"}
LONG_AGO_S = 100


def _line(verb: str, name: str, extra: str) -> str:
    return f"{verb} {name} {INSTANCES.get(name, '')} {extra}".strip()


name = st.sampled_from(NAMES)
commands = st.one_of(
    st.builds(
        _line,
        st.just("join"),
        name,
        st.sampled_from(
            ["", "", "version=3", "topics=x", "id=", "protocols=sticky,range", "rebalance=7"]
        ),
    ),
    st.builds(_line, st.just("sync"), name, st.sampled_from(["", "", "generation=1", "id=x"])),
    st.builds(_line, st.just("beat"), name, st.sampled_from(["", "generation=2"])),
    st.builds(_line, st.just("commit"), name, st.sampled_from(["t-0=1", "t-0=2", "t-1=3 keep=20"])),
    st.builds("leave {}".format, name),
    st.builds("after {}".format, st.sampled_from([0.25, 1, 7, 12, 61])),
    st.sampled_from(["expire", "delete", "restart", "leave instance=i", "commit - t-0=9"]),
    st.sampled_from(["writes fail", "writes work", "writes work"]),
)


def _durable(group: ClassicGroup | None) -> Any:
    """What of a group has to survive."""
    if group is None:
        return None
    kept = group.state_record()
    kept.current_state_timestamp = 0
    return kept


class _Watched:
    """A script, and what its clients were told: each wait is answered once."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.waiting = 0
        self.failed = False
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.generation = 0
        self._take, self._answer = script.take, script.answer
        script.take, script.answer = self.take, self.answer

    def take(self, effects: Any) -> None:
        """Note whether the log tells everything: the end of a generation may be missing from it."""
        if effects.records and self.script.writes_fail:
            self.failed = True
        elif any(record_type(key) == GROUP_METADATA_TYPE for key, *_ in effects.records):
            self.failed = False
        self._take(effects)

    def answer(self, waiter: Any, response: Any) -> None:
        """Note an answer."""
        if waiter[1] != "leave":
            self.waiting -= 1
            assert self.waiting >= 0
        self._answer(waiter, response)

    def do(self, line: str) -> None:
        """Carry a command out, and count who waits."""
        asks = line.startswith(("join", "sync"))
        self.waiting += asks
        self.script.command(line)
        if asks and self.script.was_refused:
            self.waiting -= 1
        if line == "restart":
            self.waiting = 0
            self.failed = False
            self.generation = 0

    def check(self) -> None:
        """The promises."""
        coordinator = self.script.coordinator
        group = coordinator.groups.get("g")
        held = 0
        if group is not None:
            members = group.members.values()
            held = sum((m.joining is not None) + (m.syncing is not None) for m in members)
            self._check_group(group)
        else:
            self.generation = 0
        assert held == self.waiting
        again = type(self.script)(offsets_retention_ms=LONG_AGO_S * 1000)
        again.log = list(self.script.log)
        again.load()
        assert again.coordinator.offsets.of("g").topics == coordinator.offsets.of("g").topics
        settled = group is None or group.state in (GroupState.STABLE, GroupState.EMPTY)
        if settled and not self.failed:
            assert _durable(again.coordinator.groups.get("g")) == _durable(group)

    def _check_group(self, group: ClassicGroup) -> None:
        assert group.generation >= self.generation or not group.generation
        self.generation = group.generation
        assert bool(group.members) == (group.leader is not None)
        assert group.leader is None or group.leader in group.members
        assert set(group.static_members.values()) == {
            m.member_id for m in group.members.values() if m.group_instance_id is not None
        }
        assert group.pending_syncs <= set(group.members)
        assert not group.pending_joins.keys() & group.members.keys()
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state is GroupState.STABLE:
            assert group.members
            for member in group.members.values():
                known = self.assigned.setdefault(
                    (group.generation, member.group_instance_id or member.member_id),
                    member.assignment,
                )
                assert known == member.assignment


@given(st.lists(commands, max_size=40))
def test_any_history_keeps_the_promises(new_script, history):
    """Replayed state is live state; nobody waits unheard or is answered twice; one assignment."""
    watched = _Watched(new_script(offsets_retention_ms=LONG_AGO_S * 1000))
    for line in history:
        watched.do(line)
        watched.check()
    watched.script.writes_fail = False
    watched.script.take(watched.script.coordinator.end(ErrorCode.NOT_COORDINATOR))
    assert watched.waiting == 0
