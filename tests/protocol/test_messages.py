"""Properties of every message in every version, and what hostile bytes can do: nothing.

Messages are drawn at random from their own field tables, frames are cut short, overwritten and
made up. ``KWIRE_FUZZ_EXAMPLES`` sets how many examples hypothesis tries.
"""

import os
import tracemalloc
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.protocol import types
from kwire.protocol.codec import MalformedRequest, decode, decoder, encode
from kwire.protocol.messages import MODULES, message_classes
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kwire.protocol.source import min_size_bytes

EXAMPLES = int(os.environ.get("KWIRE_FUZZ_EXAMPLES", "250"))
FUZZ = settings(max_examples=EXAMPLES)

MESSAGES: list[type[types.Schema]] = [
    *(message for key in MODULES for message in message_classes(key)),
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
]
EVERY_VERSION = [
    (message, version)
    for message in MESSAGES
    for version in range(message.VERSIONS[0], message.VERSIONS[1] + 1)
]

# What a decoded message may cost: a struct of two bytes becomes an object of about 150.
BYTES_PER_BYTE = 120
BYTES_AT_LEAST = 60_000

INTS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}
TEXTS = ["", "orders", "日本", "x" * 126, "x" * 127, "ключ" * 40, "a" * 32767]
BLOBS = [b"", b"\0", bytes(range(256)), b"\xff" * 20000]

# Lengths and counts that lie: the largest and smallest of every width, and long varints.
LIES = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80",
    b"\xff" * 10,
    b"\x00",
    b"\x01",
]


def random_scalar(kind: types.Kind, rng: Random) -> Any:
    """A value of a primitive type, often one at its edge."""
    if bits := INTS.get(kind.name):
        signed = bits % 2
        edges = [0, 1, (1 << bits) - 1, -(1 << bits) if signed else 1 << (bits - 1)]
        return rng.choice([*edges, rng.getrandbits(bits), -1 if signed else 2])
    if kind is types.boolean:
        return rng.random() < 0.5
    if kind is types.float64:
        return rng.choice([0.0, -1.5, 1e300, rng.random()])
    if kind is types.uuid:
        return rng.choice([types.ZERO_UUID, rng.randbytes(16)])
    if kind is types.string:
        return rng.choices(TEXTS, [9, 9, 9, 9, 9, 9, 1])[0]
    return rng.choices(BLOBS, [9, 9, 9, 1])[0]


def random_value(field: types.Field, version: int, rng: Random) -> Any:
    """A value for a field that a version has; now and then its default, or null."""
    if rng.random() < 0.15 and field.default is not types.MISSING:
        return field.default
    if field.is_nullable_in(version) and rng.random() < 0.2:
        return None
    if field.kind is types.STRUCT:
        return random_message(field.element, version, rng)
    if field.kind is not types.ARRAY:
        return random_scalar(field.kind, rng)
    count = rng.choice([0, 1, 1, 2, 3])
    if isinstance(field.element, types.Kind):
        return [random_scalar(field.element, rng) for _ in range(count * rng.choice([1, 1, 50]))]
    return [random_message(field.element, version, rng) for _ in range(count)]


def random_message(message: type[types.Message], version: int, rng: Random) -> Any:
    """A message with values in just those fields that the version has."""
    values = {
        field.name: random_value(field, version, rng)
        for field in message.FIELDS
        if field.is_in(version)
    }
    for field in message.FIELDS:
        if field.kind is types.STRUCT and field.tag is not None:
            default = field.element()
            if values.get(field.name) == default:  # a default is not written, so it reads as None
                values[field.name] = None
    return message(**values)


def test_every_message_round_trips_in_every_version() -> None:
    """Decoding what was encoded gives an equal message, from bytes and from a memoryview."""
    rng = Random(4_3)
    for message, version in EVERY_VERSION:
        for _ in range(3):
            original = random_message(message, version, rng)
            data = encode(original, version)
            assert decode(message, version, data) == original
            assert decode(message, version, memoryview(data)) == original
            assert encode(decode(message, version, data), version) == data


def test_a_default_message_round_trips_in_every_version() -> None:
    """Every field has a default that every version can carry or leave out."""
    for message, version in EVERY_VERSION:
        assert decode(message, version, encode(message(), version)) == message()


def test_the_fewest_bytes_of_a_message_are_those_of_its_default() -> None:
    """Decoders count on them: more would refuse what is right, fewer would let a lie through."""
    for message, version in EVERY_VERSION:
        data = encode(message(), version)
        flexible = types.is_flexible(message, version)
        assert min_size_bytes(message, version, flexible) == len(data), (message, version)


def test_every_truncation_is_malformed() -> None:
    """A message that ends early is refused, wherever it ends."""
    rng = Random(7)
    for message, version in EVERY_VERSION:
        data = encode(random_message(message, version, rng), version)
        ends = range(len(data)) if len(data) < 40 else rng.sample(range(len(data)), 40)
        for end in ends:
            assert_malformed(message, version, data[:end])


def assert_malformed(message: type[types.Schema], version: int, data: bytes) -> None:
    """Decoding raises ``MalformedRequest`` and nothing else."""
    try:
        decode(message, version, data)
    except MalformedRequest:
        return
    raise AssertionError(f"{message.__name__} v{version} accepts {data.hex()}")


def decode_hostile(message: type[types.Schema], version: int, data: bytes) -> None:
    """Decode bytes from an enemy: a message or ``MalformedRequest``, at a bounded cost."""
    decoder(message, version)  # compiled outside the measurement
    tracemalloc.start()
    try:
        decode(message, version, data)
    except MalformedRequest:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < BYTES_AT_LEAST + BYTES_PER_BYTE * len(data)


@FUZZ
@given(st.sampled_from(EVERY_VERSION), st.binary(max_size=400))
def test_random_bytes_are_a_message_or_malformed(which: tuple[Any, int], data: bytes) -> None:
    """Made-up bytes raise only ``MalformedRequest`` and allocate no more than they justify."""
    decode_hostile(*which, data)


@FUZZ
@given(st.sampled_from(EVERY_VERSION), st.integers(0, 2**32), st.data())
def test_mutated_messages_are_a_message_or_malformed(
    which: tuple[Any, int], seed: int, data: st.DataObject
) -> None:
    """Valid bytes with a lie written over them do no more harm than made-up ones."""
    frame = bytearray(encode(random_message(*which, Random(seed)), which[1]))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(frame)))
        lie = data.draw(st.sampled_from(LIES) | st.binary(min_size=1, max_size=4))
        insert = data.draw(st.booleans())
        frame[position : position if insert else position + len(lie)] = lie
    decode_hostile(*which, bytes(frame))


def test_lies_at_every_position_are_bounded() -> None:
    """No length, count or tag in any message can be made to allocate what isn't there."""
    rng = Random(11)
    for message, version in EVERY_VERSION:
        frame = encode(random_message(message, version, rng), version)[:300]
        for _ in range(4):
            position = rng.randrange(len(frame) + 1)
            lie = rng.choice(LIES)
            decode_hostile(message, version, frame[:position] + lie + frame[position + len(lie) :])


def test_a_response_has_the_versions_of_its_request() -> None:
    """And becomes flexible with the same one: both are encoded by the version of the request."""
    for key in MODULES:
        request, response = message_classes(key)
        assert request.VERSIONS == response.VERSIONS, request.__name__
        assert request.FLEXIBLE_SINCE == response.FLEXIBLE_SINCE, request.__name__
