"""What a topology needs of the cluster's topics, and what is said about those that don't fit."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.streams.records import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from kwire.coordinator.streams.topology.configuration import configure_topology
from kwire.coordinator.streams.topology.configured import (
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
)
from kwire.errors import ErrorCode, KafkaError
from tests.support.calls import calls_within


def part(
    name: str,
    sources: Iterable[str] = (),
    *,
    reads: Mapping[str, int] | None = None,
    writes: Iterable[str] = (),
    stores: Iterable[TopicInfo | str] = (),
    together: Iterable[CopartitionGroup] = (),
) -> Subtopology:
    """A subtopology; ``reads`` are its repartition sources with their numbers of partitions."""
    return Subtopology(
        subtopology_id=name,
        source_topics=list(sources),
        repartition_source_topics=[
            TopicInfo(name=topic, partitions=count) for topic, count in (reads or {}).items()
        ],
        repartition_sink_topics=list(writes),
        state_changelog_topics=[
            TopicInfo(name=store) if isinstance(store, str) else store for store in stores
        ],
        copartition_groups=list(together),
    )


def configure(topics: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    """Compare a topology of these subtopologies with these topics."""
    value = StreamsGroupTopologyValue(epoch=3, subtopologies=list(subtopologies))
    return configure_topology(value, topics.get)


def tasks(configured: ConfiguredTopology) -> dict[str, int]:
    """The number of tasks of each subtopology."""
    return {name: subtopology.tasks for name, subtopology in configured.subtopologies.items()}


def partitions(configured: ConfiguredTopology) -> dict[str, int]:
    """The numbers of partitions of the topics to create."""
    return {t.name: t.partitions for t in configured.internal_topics_to_create.values()}


def refusal(*subtopologies: Subtopology) -> str:
    """The message for a topology that no topics could mend; its source topic is there."""
    with pytest.raises(KafkaError) as caught:
        configure({"in": 2}, *subtopologies)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY
    return caught.value.message


WORD_COUNT = (
    part("0", ["in"], writes=["re"]),
    part("1", reads={"re": 0}, stores=["counts"]),
)


def test_a_subtopology_has_a_task_for_each_partition_it_reads() -> None:
    """Its topic with most partitions counts."""
    configured = configure({"in": 2, "more": 5}, part("0", ["in", "more"]))
    assert tasks(configured) == {"0": 5}
    assert configured.ready
    assert configured.epoch == 3
    assert not configured.subtopologies["0"].is_stateful


def test_internal_topics_follow_the_source_topics() -> None:
    """The repartition topic has the partitions of what is written to it, the changelog those of
    what is read.
    """
    configured = configure({"in": 4}, *WORD_COUNT)
    assert tasks(configured) == {"0": 4, "1": 4}
    assert partitions(configured) == {"re": 4, "counts": 4}
    assert configured.error == (
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: counts, re",
    )
    assert not configured.ready
    assert configured.subtopologies["1"].is_stateful
    assert configure({"in": 4, "re": 4, "counts": 4}, *WORD_COUNT).ready


def test_the_topic_to_create_has_what_the_member_asked_for() -> None:
    """Without a replication factor it is the broker's."""
    store = TopicInfo(
        name="counts",
        replication_factor=3,
        topic_configs=[KeyValue(key="cleanup.policy", value="compact")],
    )
    configured = configure({"in": 2}, part("0", ["in"], stores=[store, "other"]))
    assert configured.internal_topics_to_create == {
        "counts": InternalTopic("counts", 2, 3, {"cleanup.policy": "compact"}),
        "other": InternalTopic("other", 2, -1, {}),
    }


def test_source_topics_come_first() -> None:
    """Three are named."""
    sources = [f"t{number}" for number in range(5)]
    configured = configure({"t1": 1}, part("1", sources), part("0", ["t2"], stores=["s"]))
    assert configured.error == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics t0, t2, t3 and 1 additional topics are missing.",
    )
    assert not configured.subtopologies
    assert not configured.internal_topics_to_create


def test_internal_topics_that_exist_are_compared() -> None:
    """The repartition topic is as it is, and so is what depends on it."""
    assert configure({"in": 4, "re": 3}, *WORD_COUNT).error == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic re has different number of partitions: expected 4, found 3",
    )
    assert configure({"in": 4, "re": 4, "counts": 5}, *WORD_COUNT).error == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic counts has different number of partitions: expected 4, found 5",
    )


def test_a_number_in_the_topology_counts() -> None:
    """``repartition(Repartitioned.numberOfPartitions(7))``."""
    configured = configure(
        {"in": 4}, part("0", ["in"], writes=["re"]), part("1", reads={"re": 7}, stores=["counts"])
    )
    assert partitions(configured) == {"re": 7, "counts": 7}
    assert tasks(configured) == {"0": 4, "1": 7}


def test_numbers_go_along_a_chain_in_any_order() -> None:
    """Each link reads what the one before it writes."""
    links = [
        part(f"{number:03}", reads={f"r{number}": 0}, writes=[f"r{number - 1}"])
        for number in range(1, 4)
    ]
    configured = configure({"in": 6}, *links, part("999", ["in"], writes=["r3"]), part("0", ["in"]))
    assert configured.error is not None
    assert partitions(configured) == {"r1": 6, "r2": 6, "r3": 6}


def test_joined_topics_have_the_same_number() -> None:
    """A repartition topic takes the number of the source topic that it is joined with."""
    join = [CopartitionGroup(source_topics=[0], repartition_source_topics=[0])]
    topology = (
        part("0", ["in"], writes=["re"]),
        part("1", ["table"], reads={"re": 0}, stores=["s"], together=join),
    )
    configured = configure({"in": 4, "table": 3}, *topology)
    assert partitions(configured) == {"re": 3, "s": 3}
    fixed = configure(
        {"in": 4, "table": 3}, topology[0], part("1", ["table"], reads={"re": 4}, together=join)
    )
    text = (
        "Number of partitions [4] of repartition topic [re] doesn't match number of partitions "
        "[3] of the source topic."
    )
    assert fixed.error == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, text)


def test_joined_source_topics_that_differ_are_named() -> None:
    """Nobody can mend that but the operator."""
    join = [CopartitionGroup(source_topics=[0, 1])]
    assert configure({"b": 4, "a": 3}, part("0", ["b", "a"], together=join)).error == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=3, b=4}]",
    )


def test_joined_repartition_topics_take_the_highest_number_or_the_fixed_one() -> None:
    """Of two fixed ones that differ, none."""
    join = [CopartitionGroup(repartition_source_topics=[0, 1])]
    writers = (part("0", ["in"], writes=["r"]), part("1", ["more"], writes=["q"]))

    def joined(r: int, q: int) -> ConfiguredTopology:
        reader = part("2", reads={"r": r, "q": q}, together=join)
        return configure({"in": 2, "more": 5}, *writers, reader)

    assert partitions(joined(0, 0)) == {"r": 5, "q": 5}
    assert partitions(joined(3, 0)) == {"r": 3, "q": 3}
    assert joined(3, 4).error == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{q=4, r=3}]",
    )


def test_topologies_that_no_topics_could_mend() -> None:
    """A loop, a topic that nobody writes, a subtopology that reads nothing, places without a
    topic.
    """
    assert "There may be loops" in refusal(
        part("0", reads={"a": 0}, writes=["b"]), part("1", reads={"b": 0}, writes=["a"])
    )
    assert "never used as a sink topic" in refusal(part("0", ["in"], reads={"a": 0}))
    assert refusal(part("0", stores=["s"])) == "No source topics found for subtopology 0"
    assert "two subtopologies 0" in refusal(part("0", ["in"]), part("0", ["in"]))
    assert "Topic a has -1 partitions" in refusal(part("0", ["in"], reads={"a": -1}, writes=["a"]))
    for place in (CopartitionGroup(source_topics=[1]), CopartitionGroup(source_topics=[-1])):
        assert "subtopology 0" in refusal(part("0", ["in"], together=[place]))
    place = CopartitionGroup(repartition_source_topics=[0])
    assert "subtopology 0" in refusal(part("0", ["in"], together=[place]))


names = st.sampled_from("abcdef")
places = st.lists(st.integers(-1, 3), max_size=3)
parts = st.builds(
    part,
    st.sampled_from("01234"),
    st.lists(names.map(str.upper), max_size=2),
    reads=st.dictionaries(names, st.sampled_from([0, 0, 0, 2, 3, -1]), max_size=2),
    writes=st.lists(names, max_size=2),
    stores=st.lists(st.sampled_from("stu"), max_size=2),
    together=st.lists(
        st.builds(CopartitionGroup, source_topics=places, repartition_source_topics=places),
        max_size=1,
    ),
)


@given(
    subtopologies=st.lists(parts, max_size=5),
    topics=st.dictionaries(st.sampled_from("abcdefstuABCDEF"), st.integers(1, 4)),
)
def test_what_is_created_makes_the_topology_ready(
    subtopologies: list[Subtopology], topics: dict[str, int]
) -> None:
    """Any topology is refused, has a reason, or is ready once its missing topics are there."""
    try:
        configured = configure(topics, *subtopologies)
    except KafkaError as refused:
        configured, code = None, refused.code
    if configured is None:
        assert code is ErrorCode.STREAMS_INVALID_TOPOLOGY
        return
    if configured.error is None:
        assert not configured.internal_topics_to_create
    elif configured.error[0] is StatusCode.MISSING_INTERNAL_TOPICS:
        created = partitions(configured)
        assert not created.keys() & topics.keys()
        after = configure(topics | created, *subtopologies)
        assert after.ready
        assert after.subtopologies == configured.subtopologies


def test_a_long_chain_in_the_wrong_order_takes_a_few_steps_for_each_link() -> None:
    """Although a round over all links would find one number only."""

    def work(length: int) -> int:
        links = [
            part(f"{number:05}", reads={f"r{number}": 0}, writes=[f"r{number - 1}"])
            for number in range(length)
        ]
        end = part("99999", ["in"], writes=[f"r{length - 1}"])
        return calls_within(lambda: configure({"in": 6}, *links, end))

    assert work(1_000) < 12 * work(100)
