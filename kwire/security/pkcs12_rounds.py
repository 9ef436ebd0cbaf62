"""How many rounds of hashing a PKCS12 file demands to derive its keys from the password.

The library derives the keys without a pause, and the whole broker waits meanwhile. An administrator
of a listener's dynamic configs could name a file that takes hours. So the number of rounds is read
first: in the file's DER, it follows each salt.

Source: RFC 7292, 4 and appendix B; RFC 8018. Java stops at 5,000,000 rounds (PKCS12KeyStore).
"""

from collections.abc import Iterator

MOST_ROUNDS = 2_000_000
"""The limit for a whole file, which takes about half a second. ``openssl`` and ``keytool`` use
10,000 rounds for a key."""

_INTEGER, _OCTETS, _SEQUENCE, _OCTETS_IN_PIECES = 0x02, 0x04, 0x30, 0x24
_NO_LENGTH = 0x80
_CONSTRUCTED = 0x20
_MOST_DEPTH = 32
_MOST_VALUES = 100_000


def rounds_of(data: bytes) -> int:
    """The sum of the rounds for all keys in a file; ValueError if the file is not DER."""
    total = 0
    before = 0
    for count, (tag, content) in enumerate(_values(data, 0)):
        if count > _MOST_VALUES:
            raise ValueError("it has too many parts")
        if tag == _INTEGER and before == _OCTETS:  # a salt, followed by the number of rounds
            total += int.from_bytes(content)
        before = tag
    return total


def _values(data: bytes, depth: int) -> Iterator[tuple[int, bytes]]:
    """All DER values of a file. A value inside another one follows the outer one."""
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
    """The content of an octet string if it is itself a DER value; empty otherwise."""
    if tag != _OCTETS or content[:1] != bytes([_SEQUENCE]):
        return b""
    try:
        _, _, end = _head(content, 0)
    except ValueError:
        return b""
    return content if end == len(content) else b""


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """The tag of a DER value, and the positions where its content begins and ends; ValueError."""
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
