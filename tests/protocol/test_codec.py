"""The rules of the codecs, one by one, on small messages and on Kafka's own."""

import linecache
import traceback

import pytest

from kwire.protocol.codec import (
    MalformedRequest,
    UnencodableMessage,
    decode,
    decoder,
    encode,
    encoder,
    in_pieces,
)
from kwire.protocol.file_slice import FileSlice, Records, RecordsParts
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    ReplicaState,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    binary,
    boolean,
    float64,
    int8,
    int32,
    record_batches,
    string,
    struct,
    uint32,
    uuid,
)
from kwire.protocol.wire import (
    MAX_ELEMENTS,
    TooManyElements,
    append_unsigned_varint,
)


class Point(Nested):
    """A struct that exists to be nested."""

    x: int = int32(default=-1)


class Sample(Schema, versions=(0, 2), flexible=1):
    """One field of every sort that the rules speak of."""

    flag: bool = boolean()
    ratio: float = float64()
    size: int = uint32()
    name: str = string()
    nickname: str | None = string(nullable_since=1, default="")
    payload: bytes | None = binary(nullable=True, default=None)
    point: Point = struct(Point)
    maybe: Point | None = struct(Point, nullable=True, default=None)
    points: list[Point] = array(Point)
    names: list[str] = array(string)
    identifiers: list[bytes] = array(uuid)
    levels: list[int] | None = array(int8, nullable=True)
    late: int = int32(since=2, default=7)
    dropped: int = int32(until=1, ignorable=True)
    second: int = int32(since=1, tag=1, ignorable=True)
    first: str = string(since=1, tag=0, ignorable=True)
    place: Point | None = struct(Point, since=1, tag=5, ignorable=True)


class Data(Schema, versions=(0, 1), flexible=1):
    """A message of records between other fields."""

    before: int = int32()
    records: Records = record_batches(nullable=True)
    after: int = int32()


def sample() -> Sample:
    """A sample with a value in every field that version 1 has."""
    return Sample(
        flag=True,
        ratio=0.5,
        size=0xFFFFFFFF,
        name="a",
        nickname="b",
        payload=b"\0\1",
        point=Point(x=1),
        maybe=Point(x=2),
        points=[Point(x=3), Point()],
        names=["", "n"],
        identifiers=[bytes(range(16))],
        levels=[-1, 5],
        second=2,
        first="1",
        place=Point(x=4),
    )


def test_a_flexible_message_has_exactly_these_bytes() -> None:
    """Compact lengths, a byte before a nullable struct, tagged fields ordered by tag."""
    expected = (
        "01 3fe0000000000000 ffffffff 0261 0262 030001 00000001 00 01 00000002 00"
        " 03 00000003 00 ffffffff 00 03 01 026e 02 000102030405060708090a0b0c0d0e0f 03 ff05"
        " 00000000 03 00 02 0231 01 04 00000002 05 05 00000004 00"
    )
    assert encode(sample(), 1) == bytes.fromhex(expected)
    assert decode(Sample, 1, bytes.fromhex(expected)) == sample()


def test_an_inflexible_message_has_exactly_these_bytes() -> None:
    """Fixed-width lengths and no tagged fields; ignorable tagged fields are dropped."""
    expected = (
        "01 3fe0000000000000 ffffffff 000161 000162 00000002 0001 00000001 01 00000002"
        " 00000002 00000003 ffffffff 00000002 0000 00016e"
        " 00000001 000102030405060708090a0b0c0d0e0f 00000002 ff05 00000000"
    )
    assert encode(sample(), 0) == bytes.fromhex(expected)
    decoded = decode(Sample, 0, bytes.fromhex(expected))
    assert (decoded.first, decoded.second, decoded.place) == ("", 0, None)
    assert decoded.points == sample().points


def test_nulls_where_they_are_allowed() -> None:
    """Null strings, bytes, arrays and structs come back as None."""
    original = Sample(nickname=None, levels=None)
    for version in (1, 2):
        decoded = decode(Sample, version, encode(original, version))
        assert (decoded.nickname, decoded.payload, decoded.maybe, decoded.levels) == (None,) * 4


def test_null_in_a_version_that_does_not_allow_it() -> None:
    """A field that became nullable later refuses null before, in both directions."""
    with pytest.raises(UnencodableMessage, match="Sample v0"):
        encode(Sample(nickname=None), 0)
    data = bytearray(encode(Sample(name="", nickname=""), 0))
    data[15:17] = b"\xff\xff"
    with pytest.raises(MalformedRequest, match="nickname: null"):
        decode(Sample, 0, bytes(data))


def test_a_field_that_the_version_lacks() -> None:
    """A value that can't be sent is an error, unless the field is ignorable or the default."""
    with pytest.raises(UnencodableMessage, match="Sample v1: late: not in this version"):
        encode(Sample(late=8), 1)
    assert decode(Sample, 1, encode(Sample(late=7), 1)).late == 7
    assert decode(Sample, 2, encode(Sample(dropped=9), 2)).dropped == 0
    with pytest.raises(UnencodableMessage, match="replica_state"):
        encode(FetchRequest(replica_state=ReplicaState(replica_id=3)), 14)


def test_default_tagged_fields_are_not_written() -> None:
    """A tagged struct full of defaults is as good as absent, and reads as None."""
    partition = PartitionData(current_leader=LeaderIdAndEpoch())
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    absent = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])])
    assert encode(response, 12) == encode(absent, 12)
    decoded = decode(FetchResponse, 12, encode(response, 12))
    assert decoded.responses[0].partitions[0].current_leader is None


def test_unknown_tagged_fields_are_skipped() -> None:
    """Tags of tomorrow's Kafka, beside known ones and where today has none, are no error."""
    unknown = bytes.fromhex("8001 03 aabbcc")  # tag 128, three bytes
    data = encode(Sample(first="x"), 1)
    assert data.endswith(bytes.fromhex("01 00 02 0278"))
    more = data[:-5] + b"\x03" + data[-4:] + b"\x07\x00" + unknown
    assert decode(Sample, 1, more) == Sample(first="x")
    point = encode(Sample(point=Point(x=5)), 1)
    at = point.index(bytes.fromhex("00000005 00")) + 4
    assert decode(Sample, 1, point[:at] + b"\x01" + unknown + point[at + 1 :]).point.x == 5


def test_more_unknown_tagged_fields_than_a_byte_counts_are_skipped() -> None:
    """Their number is a varint too."""
    data = encode(Sample(first="x"), 1)
    many = b"".join(bytes([tag & 0x7F | 0x80, tag >> 7, 1, 0xAA]) for tag in range(128, 328))
    more = data[:-5] + b"\xc9\x01" + data[-4:] + many
    assert decode(Sample, 1, more) == Sample(first="x")


@pytest.mark.parametrize("message", [ApiVersionsRequest, FetchRequest])
def test_tagged_fields_are_limited(message: type[Schema]) -> None:
    """Two bytes make one: a request of 100 MB would keep the event loop for ten seconds."""
    version = message.VERSIONS[1]
    data = encode(message(), version)[:-1]
    assert decode(message, version, data + b"\xff\x01" + b"\x64\x00" * 255) == message()
    with pytest.raises(MalformedRequest, match="256 tagged fields"):
        decode(message, version, data + b"\x80\x02" + b"\x64\x00" * 256)


def test_long_values_cost_as_much_as_many_elements() -> None:
    """Each takes the event loop's time: 2,000 strings of 32 KB would take it for 100 ms."""
    long = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 0x7FFF)] * 10)
    for version in (8, 12):
        data = encode(long, version)
        assert decoder(MetadataRequest, version)(data, 0, 10 + 1280)[0] == long
        with pytest.raises(TooManyElements):
            decoder(MetadataRequest, version)(data, 0, 10 + 1200)
        data = encode(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 254)] * 10), version)
        decoder(MetadataRequest, version)(data, 0, 10)


def test_a_codec_in_pieces_yields_for_long_values_as_for_many_elements() -> None:
    """So the request pays for them, and others have their turn between them."""
    pieces = in_pieces(MetadataRequest, MetadataResponse, 12)
    names = ["x" * 0x7FFF] * 10
    data = encode(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
    assert 40 <= len(list(pieces.decode(memoryview(data), 0, 10))) <= 42
    response = MetadataResponse(topics=[MetadataResponseTopic(name=name) for name in names])
    out = bytearray()
    assert 40 <= len(list(pieces.encode(response, out, []))) <= 42
    assert out == encode(response, 12)


def test_tagged_fields_must_fit() -> None:
    """A known tagged field has the size it says; an unknown one ends inside the message."""
    data = encode(Sample(second=3), 1)
    assert data.endswith(bytes.fromhex("01 01 04 00000003"))
    with pytest.raises(MalformedRequest, match="second: wrong size"):
        decode(Sample, 1, data[:-5] + b"\x05" + data[-4:] + b"\0")
    with pytest.raises(MalformedRequest, match="longer than the message"):
        decode(Sample, 1, data[:-6] + b"\x09\x40")
    with pytest.raises(MalformedRequest, match="longer than the message"):
        decode(ApiVersionsRequest, 3, b"\x01\x01\x01\x00\x09")


def produce(records: Records) -> ProduceRequest:
    """A request with one partition."""
    partition = PartitionProduceData(records=records)
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_a_view_into_the_frame(version: int) -> None:
    """Records aren't copied when decoded, whatever the frame is."""
    data = encode(produce(b"batch"), version)
    for buffer in (data, memoryview(data)):
        records = decode(ProduceRequest, version, buffer).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert records == b"batch"
        assert records.obj is data


def test_plain_bytes_are_copied() -> None:
    """A bytes field doesn't keep the frame alive."""
    data = memoryview(encode(Sample(payload=b"keep"), 0))
    assert type(decode(Sample, 0, data).payload) is bytes


@pytest.mark.parametrize(("version", "length"), [(0, "0000012c"), (1, "ad02")])
def test_file_slices_are_noted_where_their_bytes_belong(version: int, length: str) -> None:
    """A slice leaves its length in the bytes and its place in the list."""
    file_slice = FileSlice(fd=3, position=64, size_bytes=300, owner=None)
    out, slices = bytearray(b"header"), []
    encoder(Data, version)(Data(before=1, records=file_slice, after=2), out, slices)
    start = len(b"header") + 4 + len(bytes.fromhex(length))
    assert slices == [(start, file_slice)]
    assert out[10:start].hex() == length
    assert out[start : start + 4] == b"\0\0\0\2"
    with pytest.raises(UnencodableMessage, match="slices of files"):
        encode(Data(records=file_slice), version)


def test_records_in_parts_follow_each_other() -> None:
    """Bytes and file slices mix; the length is that of all of them."""
    slices = [FileSlice(3, 0, 100, None), FileSlice(4, 8, 20, None)]
    parts = RecordsParts([b"ab", slices[0], bytearray(b"cd"), slices[1], memoryview(b"e")])
    out, noted = bytearray(), []
    encoder(Data, 0)(Data(records=parts, after=-1), out, noted)
    assert out == bytes(4) + (125).to_bytes(4, "big") + b"abcde" + b"\xff" * 4
    assert noted == [(10, slices[0]), (12, slices[1])]


def test_strings_have_kafkas_limit() -> None:
    """32,767 bytes of UTF-8 and no more, also where a compact length could say more."""
    longest = "é" * 16383 + "x"
    for version in (0, 1):
        assert decode(Sample, version, encode(Sample(name=longest), version)).name == longest
        with pytest.raises(UnencodableMessage, match="32768"):
            encode(Sample(name=longest + "x"), version)
    length = bytearray()
    append_unsigned_varint(length, 32769)
    with pytest.raises(MalformedRequest, match="string of 32768 bytes"):
        decode(ApiVersionsRequest, 3, bytes(length) + b"x" * 32768 + b"\x01\x00")


def test_text_must_be_utf_8() -> None:
    """Invalid UTF-8 is malformed, and a lone surrogate can't be sent."""
    with pytest.raises(MalformedRequest, match="UTF-8"):
        decode(ApiVersionsRequest, 3, b"\x02\xff\x01\x00")
    with pytest.raises(UnencodableMessage):
        encode(ApiVersionsRequest(client_software_name="\ud800"), 3)


@pytest.mark.parametrize(
    "values",
    [{"size": -1}, {"size": 1 << 32}, {"flag": None, "ratio": "x"}, {"names": [1]},
     {"points": None}, {"identifiers": [b"short"]}],
)  # fmt: skip
def test_values_that_no_version_can_carry(values: dict[str, object]) -> None:
    """What doesn't fit its field is refused with the name of the message."""
    with pytest.raises(UnencodableMessage, match="Sample v1"):
        encode(Sample(**values), 1)


def test_counts_are_checked_against_the_bytes_left() -> None:
    """An array can't hold more elements than its smallest elements would need bytes."""
    with pytest.raises(MalformedRequest, match=r"topics: more elements than bytes"):
        decode(MetadataRequest, 4, b"\x7f\xff\xff\xff" + bytes(100))
    with pytest.raises(MalformedRequest, match=r"topics: more elements than bytes"):
        decode(MetadataRequest, 9, b"\xff\xff\xff\xff\x0f" + bytes(100))


def test_the_elements_of_a_message_are_limited() -> None:
    """Even with the bytes to back them, arrays end somewhere."""
    for count, outcome in ((MAX_ELEMENTS, "topics[]"), (MAX_ELEMENTS + 1, "too many elements")):
        data = count.to_bytes(4, "big") + b"\xff\xff" * count
        with pytest.raises(MalformedRequest) as raised:
            decode(MetadataRequest, 4, data + b"\0")
        assert outcome in str(raised.value)


@pytest.mark.parametrize("varint", [b"\x80" * 5 + b"\x00", b"\xff" * 10, b"\x80\x80"])
def test_varints_have_at_most_five_bytes(varint: bytes) -> None:
    """A varint without an end doesn't run away."""
    with pytest.raises(MalformedRequest):
        decode(ApiVersionsRequest, 3, varint)


def test_bytes_after_the_end() -> None:
    """``decode`` wants all of the bytes; a decoder leaves the rest and says where it starts."""
    data = encode(Data(after=1), 0) + b"rest"
    with pytest.raises(MalformedRequest, match="4 bytes after the end"):
        decode(Data, 0, data)
    assert decoder(Data, 0)(b"ab" + data, 2) == (Data(after=1), len(data) - 2)


def test_versions_that_do_not_exist() -> None:
    """Asking for a codec of another version is an error of the caller."""
    for make in (encoder, decoder):
        with pytest.raises(ValueError, match=r"ProduceRequest has versions 3 to 13, not 14"):
            make(ProduceRequest, 14)
    with pytest.raises(TypeError):
        encoder(TopicProduceData, 9)


def test_codecs_are_generated_once_and_show_their_source() -> None:
    """A traceback through generated code shows the line that failed."""
    assert encoder(ApiVersionsResponse, 3) is encoder(ApiVersionsResponse, 3)
    assert decoder(ApiVersionsResponse, 3) is decoder(ApiVersionsResponse, 3)
    with pytest.raises(UnencodableMessage) as raised:
        encode(ApiVersionsResponse(error_code=1 << 20), 3)
    linecache.checkcache()
    assert "pack_h(message.error_code)" in "".join(traceback.format_exception(raised.value))
