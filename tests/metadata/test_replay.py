"""Whatever is decided, the image is what the stored changes make when they are replayed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kwire.config import BrokerConfig
from kwire.errors import KafkaError
from kwire.metadata.acls import AclBinding, AclsCreated, AclsDeleted
from kwire.metadata.changes import (
    BrokerRegistered,
    ClusterNamed,
    ControllerElected,
    PartitionsAdded,
    PartitionsChanged,
    apply,
    from_json,
    size_of,
    snapshot,
    to_json,
)
from kwire.metadata.config_control import Alteration, alter_configs
from kwire.metadata.controller import (
    NewTopic,
    add_partitions,
    allocate_producer_ids,
    create_topic,
    delete_topic,
)
from kwire.metadata.difference import difference
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
from kwire.metadata.scram import ScramCredential, ScramCredentialChanged
from tests.support.images import topic_created

SETTINGS = BrokerConfig.load({})

_NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "é", ""])
_COMMANDS = st.one_of(
    st.tuples(st.just("create"), _NAMES, st.integers(-1, 4), st.integers(0, 3)),
    st.tuples(st.just("delete"), _NAMES),
    st.tuples(st.just("extend"), _NAMES, st.integers(0, 6)),
    st.tuples(
        st.just("alter"),
        st.sampled_from([2, 4, 32]),
        _NAMES | st.just("1"),
        st.sampled_from(["retention.ms", "cleanup.policy", "message.max.bytes"]),
        st.integers(0, 3),
        st.sampled_from(["1000", "compact", "delete"]),
    ),
    st.tuples(st.just("ids")),
    st.tuples(st.just("register"), st.integers(1, 3), st.sampled_from([None, "rack"])),
)


def _decide(image, command, random):
    """The changes of one command; none when it is refused."""
    kind, *arguments = command
    try:
        match kind:
            case "create":
                name, partitions, factor = arguments
                return create_topic(image, NewTopic(name, partitions, factor), random)
            case "delete":
                topic = image.topics_by_name.get(arguments[0])
                return delete_topic(image, topic.topic_id) if topic else []
            case "extend":
                return add_partitions(image, *arguments, None, random)
            case "alter":
                number, resource, name, operation, value = arguments
                target = (ConfigResourceType(number), resource)
                return alter_configs(image, target, [Alteration(name, operation, value)], SETTINGS)
            case "ids":
                return allocate_producer_ids(image)
            case _:
                node_id, rack = arguments
                return [BrokerRegistered(BrokerImage(node_id, rack, (("P", "h", 1),)))]
    except KafkaError:
        return []


@given(st.lists(_COMMANDS, max_size=30))
def test_any_history_can_be_replayed(commands):
    """Image = replay of the changes as they are stored = replay of a snapshot of it."""
    random = Random(1)
    start = [ClusterNamed("abc"), BrokerRegistered(BrokerImage(1, None, ()))]
    image = apply(MetadataImage(), start, 1)
    stored = [to_json(start)]
    for command in commands:
        before = image, dict(image.topics_by_name), dict(image.configs)
        changes = _decide(image, command, random)
        image = apply(image, changes, len(stored) + 1)
        stored.append(to_json(changes))
        assert (before[0].topics_by_name, before[0].configs) == before[1:]
    replayed = MetadataImage()
    for revision, text in enumerate(stored, 1):
        replayed = apply(replayed, from_json(text), revision)
    assert replayed == image
    earlier = MetadataImage()
    for revision, text in enumerate(stored[: len(stored) // 2], 1):
        earlier = apply(earlier, from_json(text), revision)
    caught_up = apply(earlier, difference(earlier, image), image.revision)
    assert caught_up == image
    restored = apply(MetadataImage(), from_json(to_json(snapshot(image))), image.revision)
    assert restored == image
    assert {t.name: t for t in image.topics_by_id.values()} == image.topics_by_name


_IDS = st.lists(st.integers(1, 5), max_size=3).map(tuple)
_ROWS = st.builds(
    PartitionImage,
    *(st.integers(-1, 3), st.integers(0, 9), _IDS, _IDS, st.integers(0, 9)),
    *(_IDS, _IDS, _IDS, _IDS, st.booleans()),
)


@given(_ROWS)
def test_a_partition_survives_in_a_store(row):
    """With all its fields, whatever they are."""
    changes = [
        topic_created(row, row),
        PartitionsAdded(bytes(16), (row,)),
        PartitionsChanged(bytes(16), ((2, row),)),
    ]
    assert from_json(to_json(changes)) == changes


def test_a_partition_without_the_newer_fields_is_stored_as_before():
    """An older kwire can read it, and this one reads what an older one has written."""
    text = (
        '[{"type": "PartitionsAdded", "topic_id": "00000000000000000000000000000000", '
        '"partitions": [[1, 2, [1], [1], 3]]}]'
    )
    changes = [PartitionsAdded(bytes(16), (PartitionImage(1, 2, (1,), (1,), 3),))]
    assert from_json(text) == changes
    assert to_json(changes) == text


_ACLS = st.builds(
    AclBinding,
    *(st.integers(2, 7), st.sampled_from(["a", "é", "*"]), st.integers(3, 4)),
    *(st.sampled_from(["User:a", "User:*"]), st.just("*"), st.integers(2, 15), st.integers(2, 3)),
)
_CREDENTIALS = st.builds(
    ScramCredentialChanged,
    st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    st.sampled_from(["a", "é"]),
    st.none() | st.builds(ScramCredential, *[st.binary(max_size=3)] * 3, st.just(4096)),
)
_SOME_ACLS = st.lists(_ACLS, min_size=1, max_size=4).map(tuple)
_ACCESS = _CREDENTIALS | st.builds(AclsCreated, _SOME_ACLS) | st.builds(AclsDeleted, _SOME_ACLS)


@given(st.lists(_ACCESS, max_size=12))
def test_who_may_do_what_survives_in_a_store(changes):
    """As changes, as a snapshot, and as the difference to an earlier image."""
    assert from_json(to_json(changes)) == changes
    images = [MetadataImage()]
    for change in changes:
        images.append(apply(images[-1], [change], len(images)))
    restored = apply(MetadataImage(), from_json(to_json(snapshot(images[-1]))), len(changes))
    assert restored == images[-1]
    earlier = images[len(images) // 2]
    assert apply(earlier, difference(earlier, images[-1]), len(changes)) == images[-1]


def test_the_size_of_acls_grows_with_each_of_their_texts():
    """The estimate bounds a commit: no text that a client chooses is left out of it."""
    short = AclBinding(2, "n", 3, "User:p", "h", 3, 3)
    for longer in (
        short._replace(name="n" * 1001),
        short._replace(principal="User:p" + "p" * 1000),
        short._replace(host="h" * 1001),
    ):
        for kind in (AclsCreated, AclsDeleted):
            assert size_of([kind((longer,))]) == size_of([kind((short,))]) + 1000


def test_what_is_stored_is_applied_whatever_it_says():
    """Each start applies all commits: one that an older kwire decided wrongly can't prevent it."""
    topic = topic_created(PartitionImage(1, 5, (1,), (1,), 7))
    older = PartitionImage(1, 4, (1,), (1,), 6)
    changes = [
        topic,
        PartitionsChanged(topic.topic.topic_id, ((0, older),)),
        ControllerElected(1, 3),
        ControllerElected(1, 2),
    ]
    image = apply(MetadataImage(), changes, 1)
    assert image.partition("t", 0) == older
    assert image.controller_epoch == 2
    again = topic_created(PartitionImage(1, 0, (1,), (1,)), topic_id=bytes([9]) * 16)
    assert apply(image, [again], 2).topics_by_name["t"] == again.topic
