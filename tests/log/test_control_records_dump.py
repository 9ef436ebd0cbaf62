"""Control records as the dump shows them: markers of transactions, and what KRaft writes."""

import pytest

from kwire.log.dump.control_records import control_record
from kwire.protocol.wire import MalformedRequest
from kwire.record.records import Record

ELECTED = 'LeaderChange: {"version":0,"leaderId":7,"voters":[],"grantingVoters":[]}'
SNAPSHOT = 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":7}'


def shown(kind: int, value: bytes):
    """What the dump says of a control record of this type."""
    return control_record(Record(0, 0, b"\0\0" + kind.to_bytes(2), value))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (0, b"\0\0\0\0\0\5", "endTxnMarker: ABORT coordinatorEpoch: 5"),
        (1, b"\0\0\0\0\0\5", "endTxnMarker: COMMIT coordinatorEpoch: 5"),
        (2, b"\0\0\0\0\0\7\1\1\0", ELECTED),
        (3, b"\0\0\0\0\0\0\0\0\0\7\0", SNAPSHOT),
        (4, b"\0\0\0", 'SnapshotFooter {"version":0}'),
        (5, b"\0\0\0\1\0", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
        (6, b"\0\0\1\0", 'KRaftVoters {"version":0,"voters":[]}'),
        (9, b"", "controlType: UNKNOWN(9)"),
    ],
)
def test_each_kind(kind, value, text):
    """The words are those of Kafka's tool."""
    assert shown(kind, value).text == text


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6])
def test_a_newer_version_is_named(kind):
    """Nobody knows its fields."""
    with pytest.raises(MalformedRequest, match="has no version 2"):
        shown(kind, b"\0\2")
    with pytest.raises(MalformedRequest, match="without a version"):
        shown(kind, b"\0")
