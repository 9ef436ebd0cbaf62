"""Error responses of all APIs, made from requests: each can be encoded and has the error in it."""

from typing import Any

import pytest

from kwire.handlers import APIS
from kwire.protocol.codec import decode, encode
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol.types import ARRAY, Field, Message, MessageType, string
from kwire.testing.faults.mirror import Wanted, merge, refusal, split

CODE = 6
METADATA = 3
"""Its response needs the handler: clients get lost without the brokers."""


def name_of(topic_id: bytes) -> str:
    """The test's topic ids are names, padded."""
    return topic_id.rstrip(b"\0").decode()


def filled(message: MessageType, version: int) -> Any:
    """A message with one element in each array."""
    made: Any = message()
    for field in message.FIELDS:
        if field.kind is ARRAY and field.is_in(version):
            setattr(made, field.name, [element(field, version)])
    return made


def element(field: Field, version: int) -> Any:
    """An element of an array."""
    if isinstance(field.element, MessageType):
        return filled(field.element, version)
    return "one" if field.element is string else 7


def codes(message: Message) -> list[int]:
    """All error codes in a message."""
    found = []
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            found.append(value)
        for one in value if isinstance(value, list) else []:
            found += codes(one) if isinstance(one, Message) else []
    return found


@pytest.mark.parametrize("key", [key for key in APIS if key != METADATA])
def test_every_request_can_be_refused(key: int) -> None:
    """In each version, whether the error is general or not; the response is a valid one."""
    request_class, response_class = message_classes(key)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        for general in (True, False):
            told = refusal(request_class(), version, CODE, general=general, text="planned")
            encode(told, version)  # an empty request may have no place for the error
            request = filled(request_class, version)
            told = refusal(request, version, CODE, general=general, text="planned")
            out = encode(told, version)
            assert CODE in codes(decode(response_class, version, memoryview(out))), version


def produce_request(version: int) -> ProduceRequest:
    """Two topics with two partitions each."""
    ids = version >= 13
    return ProduceRequest(
        acks=-1,
        topic_data=[
            TopicProduceData(
                name="" if ids else name,
                topic_id=name.encode().ljust(16, b"\0") if ids else bytes(16),
                partition_data=[PartitionProduceData(index=index, records=b"") for index in (0, 1)],
            )
            for name in ("orders", "other")
        ],
    )


def partitions_of(request: ProduceRequest | None) -> list[tuple[str, int]]:
    """The partitions that a Produce names."""
    return [
        (topic.name or name_of(topic.topic_id), partition.index)
        for topic in (request.topic_data if request else [])
        for partition in topic.partition_data
    ]


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (Wanted("orders", None), [("orders", 0), ("orders", 1)]),
        (Wanted("orders", 1), [("orders", 1)]),
        (Wanted(None, 0), [("orders", 0), ("other", 0)]),
        (Wanted("nobody", None), []),
        (Wanted(None, None), [("orders", 0), ("orders", 1), ("other", 0), ("other", 1)]),
    ],
)
def test_a_request_is_split(version: int, wanted: Wanted, taken: list[tuple[str, int]]) -> None:
    """By names and by topic ids; the request itself stays whole."""
    request = produce_request(version)
    everything = partitions_of(request)
    mine, rest = split(request, version, wanted, name_of)
    assert partitions_of(mine) == taken
    assert partitions_of(rest) == [one for one in everything if one not in taken]
    assert partitions_of(request) == everything


def test_the_errors_are_merged_into_the_response_for_the_rest() -> None:
    """A topic with a good and a bad partition has one entry, as in Kafka."""
    request = produce_request(9)
    mine, rest = split(request, 9, Wanted("orders", 1), name_of)
    response = refusal(rest, 9, 0, general=False, text="")
    merge(response, refusal(mine, 9, CODE, general=False, text="planned"), 9)
    told: Any = response
    assert [
        (topic.name, partition.index, partition.error_code, partition.error_message)
        for topic in told.responses
        for partition in topic.partition_responses
    ] == [
        ("orders", 0, 0, ""),
        ("orders", 1, CODE, "planned"),
        ("other", 0, 0, ""),
        ("other", 1, 0, ""),
    ]


def test_where_an_error_stands() -> None:
    """A general error stands at the group, any other at the partition; Fetch has both too."""
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[3])]
    )
    request = OffsetFetchRequest(groups=[group])
    told: Any = refusal(request, 8, CODE, general=True, text="").groups[0]  # type: ignore[attr-defined]
    assert (told.group_id, told.error_code, told.topics) == ("g", CODE, [])
    told = refusal(request, 8, CODE, general=False, text="").groups[0]  # type: ignore[attr-defined]
    partition = told.topics[0].partitions[0]
    assert (told.error_code, told.topics[0].name) == (0, "orders")
    assert (partition.partition_index, partition.error_code) == (3, CODE)
    fetch = FetchRequest(topics=[FetchTopic(topic="orders", partitions=[FetchPartition()])])
    told = refusal(fetch, 11, CODE, general=False, text="")
    assert (told.error_code, told.responses[0].partitions[0].error_code) == (0, CODE)
