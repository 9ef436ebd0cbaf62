"""Any interleaving of members of both protocols, time, restarts, and failing writes.

Clients do what well-behaved ones do: they report what they have, give up what they are told to, and
join again when they are told they are out. When they do it, and which answers are lost, is up to
chance. The promises are checked after every step, and once everybody has had their turn.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.consumer.group import ConsumerGroup

NAMES = ("a", "b", "c", "d")
OLD_NAMES = ("x", "y")
OUT = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND", "FENCED_INSTANCE_ID")
SUBSCRIPTIONS = ("t", "u", "t,u", "t,missing")

STEP = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(NAMES), st.sampled_from(SUBSCRIPTIONS)),
    st.tuples(st.just("beat"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("lost"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("resubscribe"), st.sampled_from(NAMES), st.sampled_from(SUBSCRIPTIONS)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.just("old"), st.sampled_from(OLD_NAMES), st.sampled_from(SUBSCRIPTIONS)),
    st.tuples(st.just("old_leave"), st.sampled_from(OLD_NAMES), st.just("")),
    st.tuples(st.just("after"), st.just(""), st.sampled_from(("0.3", "2", "50"))),
    st.tuples(st.just("restart"), st.just(""), st.just("")),
    st.tuples(st.just("topics"), st.just(""), st.sampled_from(("t=4 u=2", "t=4", "t=5 u=3"))),
    st.tuples(st.just("writes"), st.just(""), st.sampled_from(("fail", "work"))),
)


class Clients:
    """Clients of both protocols around a script; ``joined`` are those that think they are in."""

    def __init__(self, script):
        self.script = script
        self.joined = {}
        self.missed = set()

    def step(self, verb, name, detail):
        """One thing happens."""
        if verb in ("after", "restart", "topics", "writes"):
            self.script.command(f"{verb} {detail}")
        elif verb == "join":
            if name not in self.joined:
                self.join(name, detail)
        elif verb == "old":
            self.old_turn(name, detail)
        elif name in self.joined:
            getattr(self, f"do_{verb}")(name, detail)

    def join(self, name, topics):
        """A client of the consumer protocol comes."""
        self.note(name, self.script.command(f"join {name} topics={topics}"), topics)

    def do_beat(self, name, detail):
        """A client goes on, and does what it is told; if it missed an answer it says everything."""
        all_of_it = f" rebalance=60 topics={self.joined[name]}" if name in self.missed else ""
        self.missed.discard(name)
        self.note(name, self.script.command(f"beat {name}{all_of_it}"), self.joined[name])

    def do_lost(self, name, detail):
        """The answer to a heartbeat is lost: the client knows nothing of it."""
        member = self.script.member(name)
        epoch, owned = member.epoch, member.owned
        self.script.command(f"beat {name}")
        member.epoch, member.owned = epoch, owned
        self.missed.add(name)

    def do_resubscribe(self, name, topics):
        """A client subscribes to other topics."""
        self.note(name, self.script.command(f"beat {name} topics={topics}"), topics)

    def do_leave(self, name, detail):
        """A client leaves; what it had it has given up, even if nobody hears of it."""
        self.script.command(f"leave {name}")
        self.gone(name)

    def do_old_leave(self, name, detail):
        """A client of the classic protocol leaves."""
        self.script.command(f"old_leave {name}")
        self.script.member(name).member_id = ""
        self.gone(name)

    def old_turn(self, name, topics):
        """A client of the classic protocol comes, or goes on as far as it can."""
        member = self.script.member(name)
        if name in self.joined:
            trace = self.script.command(f"old_beat {name}")
            if trace[-1] == "ok":
                return
            if trace[-1] in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
                member.owned = {}
        topics = self.joined.get(name, topics)
        joins = f"old_join {name} topics={topics} protocols=range"
        trace = self.script.command(joins)
        if trace and "MEMBER_ID_REQUIRED" in trace[-1]:
            trace = self.script.command(joins)
        if not any(f"{name}: {member.member_id} generation" in line for line in trace):
            if trace and trace[-1] in OUT:
                member.member_id, member.owned = "", {}
            return
        if isinstance(self.script.coordinator.groups.get("g"), ConsumerGroup):
            trace = self.script.command(f"old_sync {name}")
            self.joined[name] = topics

    def note(self, name, trace, topics):
        """Whether a client is in after this."""
        if trace and trace[-1] in OUT:
            self.gone(name)
        elif trace and trace[-1].startswith(f"{name}: epoch"):
            self.joined[name] = topics

    def gone(self, name):
        """A client isn't in any more, and has nothing."""
        self.joined.pop(name, None)
        self.script.member(name).owned = {}


def check(script):
    """One owner per partition; what was replayed, compacted or not, is what is there."""
    live = script.coordinator.groups.get("g")
    if isinstance(live, ConsumerGroup):
        held = Counter(
            (topic, index)
            for member in live.members.values()
            for owned in (member.assigned, member.revoking)
            for topic, partitions in owned.items()
            for index in partitions
        )
        assert not held or max(held.values()) == 1
        assert held.keys() == live.owners.keys()
    if not script.writes_fail:
        for log in (script.log, compacted(script.log)):
            replayed = reloaded(script, log)
            assert type(replayed) is type(live)
            if isinstance(live, ConsumerGroup):
                assert state_of(replayed) == state_of(live)


def compacted(log):
    """What the cleaner may leave of a log: the last record of each key."""
    last = {record.key: record for record in log}
    return sorted(last.values(), key=lambda record: record.offset)


def reloaded(script, log):
    """The group as another coordinator sees it that has loaded a log."""
    now, trace, written = script.coordinator, script.trace, script.log
    script.log = list(log)
    group = script.load().groups.get("g")
    script.coordinator, script.trace, script.log = now, trace, written
    return group


def state_of(group):
    """Everything that records say of a group."""
    return {
        name: getattr(group, name)
        for name in (
            "epoch",
            "metadata_hash",
            "target_epoch",
            "target_timestamp_ms",
            "members",
            "static_members",
            "targets",
            "owners",
            "regexes",
        )
    }


def check_settled(script, clients):
    """Once everybody has had their turns, every partition has one owner that wants it."""
    script.command("writes work")
    for _ in range(20):  # those who are gone for good have to be found out first
        script.command("after 4")
        for name in list(clients.joined):
            if name in NAMES:
                clients.do_beat(name, "")
            else:
                clients.old_turn(name, "t")
    group = script.coordinator.groups.get("g")
    if group is None or isinstance(group, ClassicGroup) or not group.members:
        return
    assert group.state_name == "Stable"
    wanted = {
        (topic.topic_id, index)
        for name in group.subscribed_topics()
        if (topic := script.topics.by_name(name)) is not None
        for index in range(topic.partitions)
    }
    assert group.owners.keys() == wanted
    for member in group.members.values():
        ids = {t.topic_id for n in group.topics_of(member) if (t := script.topics.by_name(n))}
        assert member.assigned.keys() <= ids


@settings(max_examples=2 * settings().max_examples)
@given(steps=st.lists(STEP, min_size=8, max_size=40), interval=st.sampled_from((0, 1000)))
def test_any_history_keeps_the_promises(new_script, steps, interval):
    """One owner, everything owned once settled, nothing forgotten."""
    script = new_script(assignment_interval_ms=interval)
    script.command("topics t=4 u=2")
    clients = Clients(script)
    for step in steps:
        clients.step(*step)
        check(script)
    check_settled(script, clients)
    check(script)
