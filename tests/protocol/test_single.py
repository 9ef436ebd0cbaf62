"""Codecs of single messages say what those of all messages say, or leave the message to them."""

from random import Random

import pytest

from kwire.protocol.codec import decode, encode
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.protocol.single import LONGEST, single_decoder, single_encoder

VERSIONS = (9, 11, 12, 13)
ID = bytes(range(16))


def produce(
    records: bytes | None = b"records", name: str = "orders", copies: int = 1, **values: object
) -> ProduceRequest:
    """A request for one partition, or for several."""
    data = PartitionProduceData(index=7, records=records)
    topic = TopicProduceData(name=name, topic_id=ID, partition_data=[data] * copies)
    return ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic], **values)


def values_of(request: ProduceRequest, version: int, before: bytes = b"") -> object:
    """What the decoder gives for the bytes of a request, behind others."""
    decoder = single_decoder(ProduceRequest, version)
    assert decoder is not None
    return decoder(memoryview(before + encode(request, version)), len(before))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_single_request_is_its_values(version: int) -> None:
    """They are in the order of the message; null is left out."""
    topic = ID if version >= 13 else "orders"
    for size in (0, 1, 100, 126, 127, 128, 20_000):
        records = bytes(size)
        assert values_of(produce(records), version, b"hd") == (-1, 1500, topic, 7, records)


@pytest.mark.parametrize("version", VERSIONS)
def test_any_other_request_is_left(version: int) -> None:
    """What is null, what isn't, and how many elements there are: each is said by one byte."""
    others = [produce(None), produce(copies=0), produce(copies=2), produce(transactional_id="t")]
    if version < 13:
        others += [produce(name="n" * (LONGEST + 1)), produce(name="")]
        assert values_of(produce(name="n" * LONGEST), version)
    for other in others[: 4 if version >= 13 else 5]:
        assert values_of(other, version) is None, other


def test_versions_without_tagged_fields_have_none() -> None:
    """Their lengths have another form."""
    assert single_decoder(ProduceRequest, 8) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_bytes_come_it_agrees_with_the_decoder_of_all(version: int) -> None:
    """Cut anywhere, longer, or with other bytes."""
    decoder, random = single_decoder(ProduceRequest, version), Random(version)
    assert decoder is not None
    whole = encode(produce(b"some records"), version)
    wrong = [whole[:end] for end in range(len(whole))] + [whole + b"\0"]
    for other in wrong:
        assert decoder(memoryview(other), 0) is None
    taken = 0
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(random.choice([1, 1, 2])):
            changed[random.randrange(len(changed))] = random.choice([0, 1, 2, 127, 128, 255])
        values = decoder(memoryview(changed), 0)
        if values is None:
            continue
        taken += 1
        request = decode(ProduceRequest, version, bytes(changed))
        [topic] = request.topic_data
        [data] = topic.partition_data
        name = topic.topic_id if version >= 13 else topic.name
        assert values == (request.acks, request.timeout_ms, name, data.index, data.records)
        assert request.transactional_id is None
    assert taken > 100


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["orders", "größe", "n" * LONGEST])
def test_a_single_response_has_the_bytes_of_any_other(version: int, name: str) -> None:
    """The size and the header are in front."""
    field = "topic_id" if version >= 13 else "name"
    told = (field, "index", "base_offset", "log_start_offset")
    topic = ID if version >= 13 else name
    frame = single_encoder(ProduceResponse, version, told)(99, topic, 7, 1 << 40, 3)
    answer = PartitionProduceResponse(index=7, base_offset=1 << 40, log_start_offset=3)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name=name, topic_id=ID, partition_responses=[answer])]
    )
    body = (99).to_bytes(4, "big") + b"\0" + encode(response, version)
    assert frame == len(body).to_bytes(4, "big") + body


def test_other_messages_have_them_too() -> None:
    """They are generated from the declarations."""
    wanted = ListOffsetsPartition(partition_index=3, current_leader_epoch=5, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[ListOffsetsTopic(name="orders", partitions=[wanted])],
        timeout_ms=50,
    )
    decoder = single_decoder(ListOffsetsRequest, 10)
    assert decoder is not None
    assert decoder(memoryview(encode(request, 10)), 0) == (-1, 1, "orders", 3, 5, -1, 50)
    assert decoder(memoryview(encode(request, 10) + b"\0"), 0) is None
    found = ListOffsetsPartitionResponse(partition_index=3, timestamp=8, offset=9, leader_epoch=5)
    response = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name="orders", partitions=[found])]
    )
    told = ("name", "partition_index", "timestamp", "offset", "leader_epoch")
    frame = single_encoder(ListOffsetsResponse, 9, told)(1, "orders", 3, 8, 9, 5)
    assert frame[9:] == encode(response, 9)
