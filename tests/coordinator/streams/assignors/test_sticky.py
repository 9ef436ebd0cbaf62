"""The sticky task assignor: one owner each, evenly, where they were; standby tasks elsewhere."""

from collections import Counter
from math import ceil, floor

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.streams.assignors import TASK_ASSIGNORS
from kwire.coordinator.streams.assignors.spec import (
    MemberTasks,
    Task,
    TaskAssignmentSpec,
    TaskMember,
    Tasks,
)
from kwire.coordinator.streams.topology.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
)
from tests.support.calls import calls_within

assign = TASK_ASSIGNORS["sticky"]

Result = dict[str, MemberTasks]


def topology_of(
    stateful: dict[str, int], stateless: dict[str, int] | None = None
) -> ConfiguredTopology:
    """A ready topology: the tasks of its subtopologies with stores, and of those without."""
    store = {"store": InternalTopic("store", 1)}
    nothing: dict[str, InternalTopic] = {}
    parts = {
        name: ConfiguredSubtopology(tasks, frozenset(), nothing, frozenset(), changelogs)
        for sizes, changelogs in ((stateful, store), (stateless or {}, nothing))
        for name, tasks in sizes.items()
    }
    return ConfiguredTopology(1, parts, {}, None)


def each(tasks: Tasks) -> list[Task]:
    """Tasks one by one."""
    return [(name, index) for name, indexes in tasks.items() for index in indexes]


@st.composite
def topologies(draw: st.DrawFn) -> ConfiguredTopology:
    """Some subtopologies with stores and some without."""
    sizes = st.dictionaries(st.sampled_from("012345"), st.integers(1, 9), max_size=4)
    stateful = draw(sizes)
    return topology_of(stateful, {f"1{name}": tasks for name, tasks in draw(sizes).items()})


tasks_before = st.dictionaries(
    st.sampled_from(["0", "1", "2", "10", "gone"]),
    st.frozensets(st.integers(0, 12), min_size=1),
    max_size=4,
)
offsets = st.dictionaries(
    st.tuples(st.sampled_from(["0", "1", "2", "gone"]), st.integers(0, 12)),
    st.integers(-2, 5),
    max_size=12,
)


@st.composite
def specs(draw: st.DrawFn, *, processes: str = "xyz", one_each: bool = False) -> TaskAssignmentSpec:
    """Any group; what members had may be wrong in every way."""
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    members = {
        name: TaskMember(
            name if one_each else draw(st.sampled_from(processes)),
            draw(tasks_before),
            draw(tasks_before),
            draw(offsets),
        )
        for name in names
    }
    return TaskAssignmentSpec(members, draw(st.integers(0, 3)))


def as_had(spec: TaskAssignmentSpec, result: Result) -> TaskAssignmentSpec:
    """The same group, when all members have what they were given."""
    members = {
        name: member._replace(active=result[name].active, standby=result[name].standby)
        for name, member in spec.members.items()
    }
    return spec._replace(members=members)


def check_valid(spec: TaskAssignmentSpec, topology: ConfiguredTopology, result: Result) -> None:
    """One owner for each task; standby tasks of stateful tasks, each on another process."""
    assert result.keys() == spec.members.keys()
    active = [task for tasks in result.values() for task in each(tasks.active)]
    wanted = {(name, i) for name, part in topology.subtopologies.items() for i in range(part.tasks)}
    assert len(active) == len(set(active))
    assert set(active) == wanted
    processes: dict[Task, list[str]] = {}
    standby: Counter[Task] = Counter()
    for name, tasks in result.items():
        assert not tasks.warmup
        standby.update(each(tasks.standby))
        for task in (*each(tasks.active), *each(tasks.standby)):
            processes.setdefault(task, []).append(spec.members[name].process_id)
    for found in processes.values():
        assert len(found) == len(set(found)), "a process has a task once"
    others = len({member.process_id for member in spec.members.values()}) - 1
    stateful = {name for name, part in topology.subtopologies.items() if part.is_stateful}
    for task in wanted:
        expected = min(others, spec.standby_replicas) if task[0] in stateful else 0
        assert standby[task] == expected, task


def active_counts(result: Result) -> dict[str, int]:
    """How many active tasks each member has."""
    return {name: len(each(tasks.active)) for name, tasks in result.items()}


@given(spec=specs() | specs(one_each=True), topology=topologies())
def test_each_task_has_one_owner_and_its_standby_tasks_are_elsewhere(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology
) -> None:
    """Whatever members had before."""
    result = assign(spec, topology)
    check_valid(spec, topology, result)
    assert assign(spec, topology) == result


@given(spec=specs(one_each=True), topology=topologies())
def test_members_of_their_own_processes_differ_by_one_active_task(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology
) -> None:
    """Stickiness goes no further than that."""
    counts = active_counts(assign(spec, topology)).values()
    assert max(counts) - min(counts) <= 1


@given(spec=specs(), topology=topologies())
def test_processes_have_active_tasks_by_the_number_of_their_members(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology
) -> None:
    """No process lies more than one task for each member under the average, none over it."""
    result = assign(spec, topology)
    average = sum(part.tasks for part in topology.subtopologies.values()) / len(spec.members)
    sizes = Counter(member.process_id for member in spec.members.values())
    loads: Counter[str] = Counter()
    for name, count in active_counts(result).items():
        assert count <= ceil(average)
        loads[spec.members[name].process_id] += count
    for process, size in sizes.items():
        assert floor(average) - 1 <= loads[process] / size <= ceil(average)


@given(spec=specs(one_each=True), topology=topologies())
def test_a_group_keeps_its_active_tasks(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology
) -> None:
    """If nothing has changed, nothing moves."""
    result = assign(spec, topology)
    again = assign(as_had(spec, result), topology)
    assert {n: t.active for n, t in again.items()} == {n: t.active for n, t in result.items()}


@given(spec=specs(one_each=True), topology=topologies(), leaver=st.integers(0, 7))
def test_those_who_stay_keep_their_active_tasks(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology, leaver: int
) -> None:
    """A member leaves: the others only get more."""
    result = assign(spec, topology)
    gone = sorted(spec.members)[leaver % len(spec.members)]
    rest = as_had(spec, result)
    members = {name: member for name, member in rest.members.items() if name != gone}
    if not members:
        return
    after = assign(rest._replace(members=members), topology)
    for name in members:
        assert set(each(result[name].active)) <= set(each(after[name].active))


@given(spec=specs(one_each=True), topology=topologies())
def test_a_newcomer_takes_tasks_and_nobody_else_gets_any(
    spec: TaskAssignmentSpec, topology: ConfiguredTopology
) -> None:
    """Active tasks move to the newcomer alone, and no more than its share."""
    result = assign(spec, topology)
    rest = as_had(spec, result)
    forgotten = {n: m._replace(standby={}, task_offsets={}) for n, m in rest.members.items()}
    members = {**forgotten, "new": TaskMember("new")}
    after = assign(rest._replace(members=members, standby_replicas=0), topology)
    for name in result:
        assert set(each(after[name].active)) <= set(each(result[name].active))


def test_a_new_group_has_its_partitions_spread() -> None:
    """Each subtopology's partitions go round the members."""
    spec = TaskAssignmentSpec({"a": TaskMember("x"), "b": TaskMember("y")})
    result = assign(spec, topology_of({"0": 4}, {"1": 2}))
    assert result["a"] == MemberTasks({"0": frozenset({0, 2}), "1": frozenset({0})})
    assert result["b"] == MemberTasks({"0": frozenset({1, 3}), "1": frozenset({1})})


def test_the_members_of_a_process_share_its_tasks() -> None:
    """A process with two threads has twice as much as one with one thread."""
    members = {"a": TaskMember("x"), "b": TaskMember("x"), "c": TaskMember("y")}
    result = assign(TaskAssignmentSpec(members), topology_of({"0": 6}))
    assert active_counts(result) == {"a": 2, "b": 2, "c": 2}


def test_the_task_of_a_member_that_left_goes_to_its_standby() -> None:
    """Although another member has less to do, for there the state is far."""
    members = {
        "a": TaskMember("x", {"0": frozenset({0})}, {"0": frozenset({1})}),
        "b": TaskMember("y", {"0": frozenset({2})}),
        "c": TaskMember("z"),
    }
    result = assign(TaskAssignmentSpec(members), topology_of({"0": 4}))
    assert result["a"].active == {"0": frozenset({0, 1})}
    assert result["c"].active == {"0": frozenset({3})}


def test_of_two_standby_tasks_the_one_that_is_further_becomes_active() -> None:
    """And a standby task comes before a store that nobody keeps up to date."""
    standby = {"0": frozenset({0})}
    members = {
        "a": TaskMember("x", standby=standby, task_offsets={("0", 0): 5}),
        "b": TaskMember("y", standby=standby, task_offsets={("0", 0): 7}),
        "c": TaskMember("z", task_offsets={("0", 0): 100}),
    }
    result = assign(TaskAssignmentSpec(members), topology_of({"0": 1}))
    assert active_counts(result) == {"a": 0, "b": 1, "c": 0}


def test_a_process_that_comes_back_gets_the_tasks_of_its_stores() -> None:
    """It has another member id, so its offsets are all that is known of it."""
    members = {
        "a": TaskMember("x"),
        "b": TaskMember("y", task_offsets={("0", 0): 10, ("0", 2): 10}),
    }
    result = assign(TaskAssignmentSpec(members), topology_of({"0": 4}))
    assert result["b"].active == {"0": frozenset({0, 2})}


def test_who_gives_a_task_up_keeps_a_standby_task() -> None:
    """The newcomer takes over from it, so its state may soon be needed again."""
    members = {"a": TaskMember("x", {"0": frozenset({0, 1})}), "b": TaskMember("y")}
    result = assign(TaskAssignmentSpec(members, 1), topology_of({"0": 2}))
    assert result == {
        "a": MemberTasks({"0": frozenset({0})}, {"0": frozenset({1})}),
        "b": MemberTasks({"0": frozenset({1})}, {"0": frozenset({0})}),
    }


def test_one_process_has_no_standby_tasks() -> None:
    """A second copy beside the first helps nobody."""
    members = {"a": TaskMember("x"), "b": TaskMember("x")}
    result = assign(TaskAssignmentSpec(members, 2), topology_of({"0": 3}))
    assert not any(tasks.standby for tasks in result.values())


def test_a_group_without_members_has_no_tasks_to_give() -> None:
    """All may have left."""
    assert assign(TaskAssignmentSpec({}), topology_of({"0": 3})) == {}


def test_large_groups_take_a_few_steps_for_each_task() -> None:
    """Also if all of them move: 40 times more tasks and members are 40 times more steps."""

    def work(tasks: int, members: int) -> int:
        spec = TaskAssignmentSpec({f"m{i}": TaskMember(f"p{i // 2}") for i in range(members)}, 1)
        topology = topology_of({"0": tasks // 2, "1": tasks // 2})
        return calls_within(lambda: assign(spec, topology))

    assert work(4_000, 400) < 50 * work(100, 10)
