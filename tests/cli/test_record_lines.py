"""Records as lines: what JSON keeps, what other formats show."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cli.record_lines import (
    RecordLineError,
    read_json,
    write_hex,
    write_json,
    write_key_value,
    write_pretty,
    write_raw,
    write_value,
    write_visible,
)
from kwire.client.leaders import TopicPartition
from kwire.record.records import Record

PLACE = TopicPartition("t", 3)
CONTENT = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(lambda s: s.encode())
NAMES = st.text(max_size=5) | st.binary(max_size=5).map(
    lambda b: b.decode(errors="surrogateescape")
)


@given(CONTENT, CONTENT, st.lists(st.tuples(NAMES, CONTENT), max_size=3))
def test_every_record_comes_back_from_its_json(key, value, headers):
    """Byte for byte, on one line of printable characters."""
    line = write_json(PLACE, Record(7, 1234, key, value, tuple(headers)))
    assert line.endswith(b"\n")
    assert line.decode()[:-1].isprintable()
    assert read_json(line) == (key, value, tuple(headers), 3, 1234)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b'{"value": 1}', "value must be a string, null or"),
        (b'{"key": {"base64": "?"}}', "key is not base64"),
        (b'{"headers": {"a": "b"}}', "headers must be a list of pairs"),
        (b'{"headers": [["a"]]}', "headers must be a list of pairs"),
        (b'{"partition": "1"}', "partition must be a whole number"),
        (b'{"timestamp": true}', "timestamp must be a whole number"),
        (b'{"timestamp": 9223372036854775808}', "timestamp must be a whole number of 64 bits"),
        (b'{"partition": 2147483648}', "partition must be a whole number of 32 bits"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_record_says_why(line, said):
    """In words that name the field."""
    with pytest.raises(RecordLineError, match=said):
        read_json(line)


def test_a_line_may_leave_everything_out():
    """Nothing is a record without key and value."""
    assert read_json(b"{}") == (None, None, (), None, None)


def test_the_other_formats():
    """What people and pipes get; control characters don't reach a terminal in pretty."""
    record = Record(7, 1234, b"k\x1b[31m", b"v\n", (("h", None),))
    assert write_value(PLACE, record) == b"v\n\n"
    assert write_raw(PLACE, record) == b"v\n"
    assert write_key_value(b"=")(PLACE, record) == b"k\x1b[31m=v\n\n"
    assert write_hex(PLACE, record) == b"t-3@7 key=6b1b5b33316d value=760a h=null\n"
    pretty = write_pretty(PLACE, record).decode()
    assert pretty.startswith("t-3@7  1970-01-01 ")
    assert pretty.endswith("  [k\\x1b[31m]  v\\n  (h=null)\n")
    assert "  -  null" in write_pretty(PLACE, Record(7, -1, None, None)).decode()


def test_json_of_a_record_is_a_plain_object():
    """For jq."""
    found = json.loads(write_json(PLACE, Record(7, 5, None, b"v", (("h", b"\xff"),))))
    assert found == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 5,
        "key": None,
        "value": "v",
        "headers": [["h", {"base64": "/w=="}]],
    }


def test_a_terminal_obeys_no_value():
    """Escape sequences are shown; tabs, line feeds and letters of all languages stay."""
    record = Record(7, 1234, b"k", "é\t\x1b[2J\n\x9b".encode() + b"\xff", ())
    assert write_visible(write_value, PLACE, record).decode() == "é\t\\x1b[2J\n\\x9b\\xff\n"
