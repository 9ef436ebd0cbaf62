"""Long values of bytes, which aren't records: copied in steps, and limited."""

import random

import pytest

from kwire.protocol.codec import MalformedRequest, decode, encode, in_pieces
from kwire.protocol.decoding import COPIED_BYTES
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kwire.protocol.wire import MAX_BINARY_BYTES


@pytest.mark.parametrize("version", [0, 5])
def test_a_decoder_in_pieces_copies_long_values_in_steps(version: int) -> None:
    """To copy 16 MB at once takes 10 ms, and so does to free 100 MB: there is a limit."""
    value = random.Random(3).randbytes(2 * COPIED_BYTES + 7)
    request = SyncGroupRequest(
        assignments=[
            SyncGroupRequestAssignment(member_id="m", assignment=value),
            SyncGroupRequestAssignment(member_id="n", assignment=b"short"),
        ]
    )
    decoding = in_pieces(SyncGroupRequest, SyncGroupResponse, version).decode(
        memoryview(encode(request, version)), 0, 10
    )
    decoded = []

    def steps():
        decoded.append((yield from decoding)[0])

    assert len(list(steps())) >= 3
    assert decoded == [request]
    assert type(decoded[0].assignments[0].assignment) is bytes


def test_values_of_bytes_are_limited() -> None:
    """Records aside, no client sends a value of so many megabytes."""
    for extra in (0, 1):
        value = bytes(MAX_BINARY_BYTES + extra)
        assignments = [SyncGroupRequestAssignment(member_id="m", assignment=value)]
        data = encode(SyncGroupRequest(assignments=assignments), 5)
        if extra:
            with pytest.raises(MalformedRequest, match="longer than 16 MiB"):
                decode(SyncGroupRequest, 5, data)
        else:
            decode(SyncGroupRequest, 5, data)
