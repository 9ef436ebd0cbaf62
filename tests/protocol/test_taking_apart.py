"""Large messages are emptied piece by piece, and nothing that others still use is touched."""

import gc
import weakref

import pytest

from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from kwire.protocol.taking_apart import COLLECTED, PIECE
from kwire.protocol.taking_apart import take_apart as pieces_of


def take_apart(thing, **options):
    """Take a thing apart in one go; return the number of pieces."""
    return sum(1 for _ in pieces_of(thing, **options))


def _topics(count):
    return [MetadataRequestTopic(name=f"topic-{number}") for number in range(count)]


def test_the_lists_of_a_message_are_emptied():
    """Whatever the number of pieces is."""
    for count in (0, 1, PIECE, 3 * PIECE + 1):
        request = MetadataRequest(topics=_topics(count))
        assert take_apart(request) == count // PIECE
        assert request.topics == []


def test_the_lists_of_its_parts_are_emptied():
    """Also where nothing but the part refers to them."""
    partitions = [ListOffsetsPartition(partition_index=number) for number in range(1000)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="a", partitions=partitions)])
    topic = request.topics[0]
    del partitions
    take_apart(request)
    assert request.topics == []
    assert len(topic.partitions) == 1000, "the test still refers to the topic"
    take_apart(topic)
    assert topic.partitions == []


def test_short_lists_count_by_their_elements(monkeypatch):
    """A collection after every few topics would take longer than all the rest, and age objects."""
    collected = []
    monkeypatch.setattr("gc.collect", collected.append)
    topics = [
        ListOffsetsTopic(name="a", partitions=[ListOffsetsPartition(partition_index=number)])
        for number in range(COLLECTED)
    ]
    pieces = take_apart(ListOffsetsRequest(topics=topics), keeps=False)
    assert pieces == 0, "the test refers to the list"
    request = ListOffsetsRequest(topics=topics)
    del topics
    assert COLLECTED / 10 < take_apart(request) < COLLECTED / 5
    assert collected == [1] * 2


def test_a_part_that_others_use_is_kept_for_the_next_time():
    """A guard's list of pairs refers to the topics of its request until it is taken apart too."""
    partitions = [ListOffsetsPartition(partition_index=number) for number in range(1000)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="a", partitions=partitions)])
    del partitions
    pairs = [(request.topics[0], "a")]
    take_apart(request, keeps=True)
    assert len(request.topics[0].partitions) == 1000
    take_apart(pairs)
    assert take_apart(request) > 1
    assert request.topics == []


def test_a_list_that_others_use_stays_whole():
    """A group may keep a list of the request that brought it."""
    request = MetadataRequest(topics=_topics(1000))
    kept = request.topics
    take_apart(request)
    assert kept is request.topics
    assert len(kept) == 1000


def test_a_part_that_others_use_stays_whole():
    """A response may name the same part twice, or one of the image."""
    partitions = [ListOffsetsPartition(partition_index=number) for number in range(10)]
    shared = ListOffsetsTopic(name="a", partitions=partitions)
    del partitions
    request = ListOffsetsRequest(topics=[shared, shared])
    take_apart(request)
    assert request.topics == []
    assert len(shared.partitions) == 10


def test_what_cannot_be_emptied_stays_whole():
    """A handler may answer with a tuple, and it may have collected nothing."""
    partition = MetadataResponsePartition(replica_nodes=tuple(map(int, "123")))
    take_apart(partition)
    assert partition.replica_nodes == (1, 2, 3)
    for nothing in ([], {}, set(), None):
        take_apart(nothing)


def test_collections_of_a_handler_are_emptied():
    """They belong to the handler alone: it says so when it gives them."""
    things = [{"a": 1, "b": 2}, {"a", "b"}, _topics(600)]
    for thing in things:
        take_apart(thing)
    assert things == [{}, set(), []]


class _Cycle:
    """An object that only the collector of cyclic garbage can free."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def quiet_collector():
    """The collector starts only when the code calls it."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1_000_000_000)
    yield
    gc.enable()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("is_enabled", [True, False])
@pytest.mark.parametrize("has_parts", [False, True])
def test_young_objects_are_collected_meanwhile(quiet_collector, is_enabled, has_parts):
    """Old objects that are freed make the collector wait, and young ones would become too many."""
    if not is_enabled:
        gc.disable()
    kind = ListOffsetsTopic if has_parts else MetadataRequestTopic
    items = [kind(name="a") for _ in range(COLLECTED)]
    young = weakref.ref(_Cycle())
    take_apart(items[: COLLECTED // 2])
    assert young() is not None, "a short list needs no collection"
    take_apart(items)
    assert (young() is None) == is_enabled
