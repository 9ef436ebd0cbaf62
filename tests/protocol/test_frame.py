"""Frames: headers of every version, and the sizes around bodies."""

import pytest

from kwire.protocol.codec import MalformedRequest, decode
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
    skip_header_tags,
)
from kwire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.types import is_flexible


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize("client_id", [None, "", "клиент"])
def test_a_request_reads_as_it_was_written(version: int, client_id: str | None) -> None:
    """Header and body of both header versions, behind the size that counts them."""
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = bytes(encode_request(request, version, 77, client_id))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, position = decode_request_header(frame, 4)
    assert (header.api_key, header.api_version) == (12, version)
    assert (header.correlation_id, header.client_id) == (77, client_id)
    if is_flexible(HeartbeatRequest, version):
        position = skip_header_tags(frame, position)
    assert decode(HeartbeatRequest, version, frame[position:]) == request


def test_header_version_2_has_exactly_these_bytes() -> None:
    """The client id keeps its int16 length in the flexible header, tagged fields follow it."""
    frame = encode_request(ApiVersionsRequest(), 3, 1, "ab")
    assert frame.hex(" ", 1) == (
        "00 00 00 10 00 12 00 03 00 00 00 01 00 02 61 62 00 01 01 00"
    )  # size, key, version, correlation id, client id, header tags, two strings, body tags


def test_unknown_header_tags_are_skipped() -> None:
    """A header may carry tagged fields of a later Kafka."""
    assert skip_header_tags(b"\x02\x00\x01x\x05\x00rest", 0) == 6
    assert skip_header_tags(b"\x01\x00\x01x", 0) == 4
    assert skip_header_tags(b"\xc8\x01" + b"\x05\x01x" * 200 + b"rest", 0) == 602
    with pytest.raises(MalformedRequest):
        skip_header_tags(b"\x01\x00\x09x", 0)
    with pytest.raises(MalformedRequest):
        skip_header_tags(b"", 0)


@pytest.mark.parametrize("data", ["", "0012", "0012000300000001", "00120003000000010005 6162",
                                  "00120003000000010001 ff"])  # fmt: skip
def test_malformed_request_headers(data: str) -> None:
    """A header that is cut short, or whose client id is no text, is malformed."""
    with pytest.raises(MalformedRequest):
        decode_request_header(bytes.fromhex(data))


@pytest.mark.parametrize("version", [0, 4])
def test_a_response_reads_as_it_was_written(version: int) -> None:
    """Header and body of both header versions."""
    frame, slices = encode_response(HeartbeatResponse(error_code=27), version, 5)
    assert slices == []
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, position = decode_response_header(bytes(frame), HeartbeatResponse, version, 4)
    assert correlation_id == 5
    assert decode(HeartbeatResponse, version, bytes(frame[position:])).error_code == 27


def test_api_versions_answers_without_header_tags() -> None:
    """Its header is version 0 even where the body is flexible (KIP-511)."""
    frame, _ = encode_response(ApiVersionsResponse(error_code=35), 3, 9)
    assert frame[4:10].hex() == "000000090023"
    assert decode_response_header(bytes(frame), ApiVersionsResponse, 3, 4) == (9, 8)
    with pytest.raises(MalformedRequest):
        decode_response_header(b"\0\0\0", ApiVersionsResponse, 3)


def test_the_size_of_a_response_counts_its_file_slices() -> None:
    """The receiver must read bytes and slices alike; each slice says where it belongs."""
    file_slice = FileSlice(fd=5, position=0, size_bytes=1000, owner=None)
    topic = FetchableTopicResponse(partitions=[PartitionData(records=file_slice)])
    frame, slices = encode_response(FetchResponse(responses=[topic]), 12, 1)
    ((position, noted),) = slices
    assert noted is file_slice
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4 + 1000
    whole = bytes(frame[4:position]) + bytes(1000) + bytes(frame[position:])
    _, start = decode_response_header(whole, FetchResponse, 12)
    records = decode(FetchResponse, 12, whole[start:]).responses[0].partitions[0].records
    assert records == bytes(1000)
