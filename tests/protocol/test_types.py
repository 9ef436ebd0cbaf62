"""Message classes behave like slotted dataclasses whose fields all have defaults."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.protocol.messages.fetch import FetchRequest, FetchTopic
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from kwire.protocol.types import ZERO_UUID, uuid_from_str, uuid_to_str


def test_defaults_are_kafkas() -> None:
    """Fields that aren't given hold what Kafka's definitions say."""
    request = FetchRequest()
    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.topics == []
    assert request.cluster_id is None
    assert MetadataRequest().allow_auto_topic_creation is True
    assert MetadataResponse().cluster_authorized_operations == -(2**31)
    assert FetchTopic().topic_id == ZERO_UUID
    assert ShareGroupHeartbeatResponse().assignment is None


def test_mutable_defaults_are_not_shared() -> None:
    """Filling the list of one message leaves the next one empty."""
    FetchRequest().topics.append(FetchTopic())
    assert FetchRequest().topics == []


def test_fields_are_given_by_name_only() -> None:
    """Positions mean nothing, unknown names are refused, and so are new attributes."""
    with pytest.raises(TypeError):
        FetchRequest(1)
    with pytest.raises(TypeError):
        FetchRequest(no_such_field=1)
    with pytest.raises(AttributeError):
        FetchRequest().no_such_field = 1


def test_messages_are_equal_field_by_field() -> None:
    """Equality compares class and values; what is mutable has no hash."""
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic() != MetadataRequest()
    assert copy.copy(FetchTopic(topic="a")) == FetchTopic(topic="a")
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_repr_shows_the_fields() -> None:
    """A message prints as the call that would make it."""
    assert repr(FetchTopic(topic="a")) == (
        f"FetchTopic(topic='a', topic_id={ZERO_UUID!r}, partitions=[])"
    )


def test_classes_tell_their_api() -> None:
    """Key, versions and the first flexible version are readable from the class."""
    assert (FetchRequest.API_KEY, FetchRequest.VERSIONS, FetchRequest.FLEXIBLE_SINCE) == (
        1,
        (4, 18),
        12,
    )
    assert InitProducerIdRequest.LATEST_UNSTABLE
    assert not FetchRequest.LATEST_UNSTABLE


def test_uuids_print_as_kafka_prints_them() -> None:
    """22 characters of base64url without padding, both ways; nothing else is a uuid."""
    uuid = bytes.fromhex("9bd471b9a6f571cf107b4e2fe88fb9a4")
    assert uuid_to_str(uuid) == "m9Rxuab1cc8Qe04v6I-5pA"
    assert uuid_from_str("m9Rxuab1cc8Qe04v6I-5pA") == uuid
    assert uuid_to_str(ZERO_UUID) == "A" * 22
    for text in ("", "A" * 21, "A" * 23, "A" * 24, "!" * 22, "é" * 22):
        with pytest.raises(ValueError):  # noqa: PT011  # several messages, one type
            uuid_from_str(text)


def test_messages_import_nothing_heavy() -> None:
    """A message module brings in neither the generators nor the standard library's dataclasses."""
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import kwire.protocol.messages.produce, kwire.protocol.codec\n"
        "heavy = {'dataclasses', 'inspect', 'kwire.protocol.encoding', 'linecache', 'tokenize'}\n"
        "print(sorted(heavy & sys.modules.keys() - before))"
    )
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert shown.stdout.strip() == "[]"
