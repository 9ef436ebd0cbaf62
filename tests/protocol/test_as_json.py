"""Messages as JSON: the names are Kafka's, and what the version lacks isn't there."""

from kwire.protocol.as_json import as_json
from kwire.protocol.types import (
    Nested,
    Schema,
    array,
    binary,
    int8,
    int32,
    string,
    struct,
    uuid,
)


class Point(Nested):
    """A struct that exists to be nested."""

    x: int = int32(default=-1)


class Sample(Schema, versions=(0, 1), flexible=0):
    """One field of every sort that the rules speak of."""

    topic_id: bytes = uuid()
    payload: bytes | None = binary(nullable=True)
    points: list[Point] = array(Point)
    ids: list[bytes] | None = array(uuid, nullable=True)
    later: int = int32(since=1)
    name: str = string(tag=0)
    count: int = int32(tag=1, default=7)
    levels: list[int] = array(int8, tag=2)
    place: Point | None = struct(Point, tag=3)


def test_tagged_fields_are_shown_unless_they_have_their_default() -> None:
    """But for structs, which are shown in any case."""
    shown = as_json(Sample(payload=None, ids=None), 0)
    assert shown == {
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA",
        "payload": None,
        "points": [],
        "ids": None,
        "place": None,
    }
    more = as_json(Sample(name="n", count=0, levels=[1], place=Point(x=2)), 0)
    assert {name: value for name, value in more.items() if name not in shown} == {
        "name": "n",
        "count": 0,
        "levels": [1],
    }
    assert more["place"] == {"x": 2}


def test_bytes_and_ids_are_base64_and_lists_keep_their_order() -> None:
    """Wherever they are."""
    message = Sample(payload=b"\xff\xfe", ids=[b"\x01" * 16], points=[Point(x=2), Point()], later=5)
    shown = as_json(message, 1)
    assert shown["payload"] == "//4="
    assert shown["ids"] == ["AQEBAQEBAQEBAQEBAQEBAQ"]
    assert shown["points"] == [{"x": 2}, {"x": -1}]
    assert shown["later"] == 5
