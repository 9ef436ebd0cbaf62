"""How many rounds a PKCS12 file asks for until its keys are derived from the password.

The library derives them without a break, and the whole broker waits meanwhile. Who may change a
listener's dynamic configs could name a file that takes hours. So a file is looked at first: its DER
holds the number of rounds behind each salt.

Source: RFC 7292, 4 and appendix B; RFC 8018. Java stops at 5,000,000 rounds (PKCS12KeyStore).
"""

from collections.abc import Iterator

MOST_ROUNDS = 2_000_000
"""For a file as a whole. It takes about half a second; ``openssl`` and ``keytool`` use 10,000."""

_INTEGER, _OCTETS, _SEQUENCE, _OCTETS_IN_PIECES = 0x02, 0x04, 0x30, 0x24
_NO_LENGTH = 0x80
_CONSTRUCTED = 0x20
_MOST_DEPTH = 32
_MOST_VALUES = 100_000


def rounds_of(data: bytes) -> int:
    """The rounds of all keys together that the file shows; ValueError for what is no DER."""
    total = 0
    before = 0
    for count, (tag, content) in enumerate(_values(data, 0)):
        if count > _MOST_VALUES:
            raise ValueError("it has too many parts")
        if tag == _INTEGER and before == _OCTETS:  # a salt, then the rounds
            total += int.from_bytes(content)
        before = tag
    return total


def _values(data: bytes, depth: int) -> Iterator[tuple[int, bytes]]:
    """All values, those within others too, each behind what it is in."""
    at = 0
    while at < len(data):
        tag, at, end = _head(data, at)
        content = data[at:end]
        yield tag, content
        at = end
        inner = content if tag & _CONSTRUCTED else _wrapped(tag, content)
        if inner and depth < _MOST_DEPTH:
            yield from _values(inner, depth + 1)


def _wrapped(tag: int, content: bytes) -> bytes:
    """Octets that are a value of DER themselves; empty for others."""
    if tag != _OCTETS or content[:1] != bytes([_SEQUENCE]):
        return b""
    try:
        _, _, end = _head(content, 0)
    except ValueError:
        return b""
    return content if end == len(content) else b""


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """A value's tag, and where its content begins and ends; ValueError."""
    if at + 2 > len(data):
        raise ValueError("it ends early")
    tag, size = data[at], data[at + 1]
    if tag == _OCTETS_IN_PIECES or size == _NO_LENGTH:
        raise ValueError("it is BER, which could hide them")
    at += 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(data[at : at + count]), at + count
    if at + size > len(data):
        raise ValueError("it ends early")
    return tag, at, at + size
