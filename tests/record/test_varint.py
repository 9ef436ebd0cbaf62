"""Varints of every length, up to the ten bytes of a number of 64 bits."""

import pytest

from kwire.record.batch import InvalidRecords
from kwire.record.varint import append_varint, read_varint

NUMBERS = [sign * ((1 << bit) - less) for bit in range(63) for sign in (1, -1) for less in (0, 1)]
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def test_a_number_is_read_as_it_was_written() -> None:
    """Wherever it stands, and nothing behind it is read."""
    for number in (*NUMBERS, LEAST, MOST):
        out = bytearray(b"before")
        append_varint(out, number)
        assert read_varint(bytes(out) + b"\xff", 6) == (number, len(out))


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804"),
     (MOST, "feffffffffffffffff01"), (LEAST, "ffffffffffffffffff01")],
)  # fmt: skip
def test_the_bytes_are_kafkas(number: int, written: str) -> None:
    """Zigzag, seven bits a byte, the lowest first."""
    out = bytearray()
    append_varint(out, number)
    assert out.hex() == written


def test_a_number_of_more_than_ten_bytes_or_without_an_end_is_refused() -> None:
    """The first is no record of Kafka's, the second is cut short."""
    with pytest.raises(InvalidRecords, match="more than 10 bytes"):
        read_varint(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff\xff", 0)
