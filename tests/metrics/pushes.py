"""Builds pushes of metrics in the format of OpenTelemetry."""

from struct import pack


def field(number: int, content: bytes) -> bytes:
    """A field of bytes in the format of Protocol Buffers."""
    size = bytearray()
    length = len(content)
    while length > 0x7F:
        size.append(length & 0x7F | 0x80)
        length >>= 7
    size.append(length)
    return bytes([number << 3 | 2]) + bytes(size) + content


def attribute(number: int, key: str, value: str) -> bytes:
    """A KeyValue whose value is a text."""
    return field(number, field(1, key.encode()) + field(2, field(1, value.encode())))


def gauge(name: str, value: float, **attributes: str) -> bytes:
    """A metric with one point that is a double."""
    of_point = b"".join(attribute(7, key, one) for key, one in attributes.items())
    point = b"\x21" + pack("<d", value) + of_point
    return field(2, field(1, name.encode()) + field(5, field(1, point)))


def added(name: str, value: int, temporality: int = 1) -> bytes:
    """A sum with one point that is a whole number; temporality 1 is the difference."""
    point = b"\x31" + pack("<q", value)
    return field(2, field(1, name.encode()) + field(7, field(1, point) + bytes([16, temporality])))


def pushed(*metrics: bytes, **resource: str) -> bytes:
    """A whole push."""
    of_resource = b"".join(attribute(1, key, value) for key, value in resource.items())
    return field(1, field(1, of_resource) + field(2, b"".join(metrics)))
