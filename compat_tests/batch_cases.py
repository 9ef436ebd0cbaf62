"""Batches of every kind, well-formed and not, and what Apache Kafka says to each of them.

A case is made for a time ``now``, in ms since the epoch, which is that of its records unless it
says otherwise. Not here are batches that Kafka answers with a bug (no answer at all, or a number
that overflows), and batches of many records whose records are wrong: kwire does not open them
(docs/decisions).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from compat_tests.raw_batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, batch, record, varint
from kwire.record.compression import compress

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)

CORRUPT_MESSAGE = 2
MESSAGE_TOO_LARGE = 10
RECORD_LIST_TOO_LARGE = 18
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87
UNKNOWN_SERVER_ERROR = -1

HOUR_MS = 3_600_000

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "two-replicas": {"min.insync.replicas": "2"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recent": {"message.timestamp.before.max.ms": str(HOUR_MS)},
    "small": {"max.message.bytes": "301"},
    "short": {"segment.bytes": "1048576", "max.message.bytes": "3000000"},
    "gzip": {"compression.type": "gzip"},
    "lz4": {"compression.type": "lz4", "compression.lz4.level": "17"},
    "stamped-zstd": {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"},
    "uncompressed": {"compression.type": "uncompressed", "max.message.bytes": "700"},
}
"""Topics by the names that cases use, and their settings."""


class Kept(NamedTuple):
    """Appended: the batch that is stored has these attributes and records.

    ``records`` are (offset from the batch's, timestamp from now); None as a timestamp is the
    broker's time, and a string the timestamp itself. ``max_timestamp`` likewise.
    """

    records: Sequence[tuple[int, int | str | None]] = ((0, 0), (1, 0))
    attributes: int = 0
    max_timestamp: int | str | None = 0
    count: int = 0


class Repeated(NamedTuple):
    """Answered as the batch that it repeats, with that one's time: the broker's where stamped."""

    records_back: int
    is_stamped: bool = False


class Refused(NamedTuple):
    """An error, the places of records that are told as wrong, and whether the answer tells where
    the log starts."""

    code: int
    places: Sequence[int] = ()
    tells_start: bool = True


Answer: TypeAlias = Kept | Repeated | Refused


class Case(NamedTuple):
    """One batch for one of the topics, and the answer."""

    name: str
    topic: str
    data: Callable[[int], bytes]
    answer: Answer
    version: int = 11


CORRUPT = Refused(CORRUPT_MESSAGE, tells_start=False)
NO_BATCH = Refused(INVALID_RECORD, tells_start=False)
INVALID = Refused(INVALID_RECORD)
UNREADABLE = Refused(UNKNOWN_SERVER_ERROR)
TOO_LARGE = Refused(MESSAGE_TOO_LARGE, tells_start=False)
NOT_TRANSACTIONAL = Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, tells_start=False)

KEPT = Kept()
STAMPED = Kept(((0, None), (1, None)), LOG_APPEND_TIME, None)

TWO = [record(0), record(1)]
BODY = b"".join(TWO)


def of(records: Sequence[bytes] = (), **fields: Any) -> Callable[[int], bytes]:
    """A batch of ``records`` (two good ones); timestamps among the fields count from now."""

    def make(now: int) -> bytes:
        values = dict(fields)
        for name in ("timestamp", "max_timestamp", "base_timestamp"):
            if isinstance(values.get(name), int):
                values[name] += now
            elif name in values:
                values[name] = int(values[name])
        return batch(list(records) or TWO, **({"timestamp": now} | values))

    return make


def numbered(count: int, value: bytes = b"value", key: bytes | None = b"k") -> list[bytes]:
    """So many good records."""
    return [record(n, key, value) for n in range(count)]


def then(first: Callable[[int], bytes], extra: bytes | Callable[[int], bytes]) -> Any:
    """A batch and what follows it."""
    return lambda now: first(now) + (extra if isinstance(extra, bytes) else extra(now))


def part(size: int) -> Callable[[int], bytes]:
    """The first bytes of a good batch."""
    return lambda now: of()(now)[:size]


def raw(data: bytes) -> Callable[[int], bytes]:
    """Just these bytes."""
    return lambda now: data


def record_of(body: bytes) -> bytes:
    """A record with this body."""
    return varint(len(body)) + body


FRAMING = [
    Case("no bytes", "plain", raw(b""), NO_BATCH),
    Case("ten bytes", "plain", raw(b"\2" * 10), NO_BATCH),
    Case("200 bytes of nothing", "plain", raw(b"\2" * 200), NO_BATCH),
    Case("100 zeros", "plain", raw(bytes(100)), CORRUPT),
    Case("more replicas in sync than there are", "two-replicas", of(), KEPT),
    Case("two batches", "plain", then(of(), of()), NO_BATCH),
    Case("a broken second batch", "plain", then(of(), of(right_crc=False)), NO_BATCH),
    Case("a byte after the batch", "plain", of(extra=b"\0"), KEPT),
    Case("part of a batch after it", "plain", then(of(), part(30)), KEPT),
    Case("zeros after it", "plain", of(extra=bytes(20)), CORRUPT),
    Case("cut by one byte", "plain", lambda now: of()(now)[:-1], NO_BATCH),
    Case("cut in the header", "plain", part(40), NO_BATCH),
    Case("a wrong checksum", "plain", of(right_crc=False), CORRUPT),
    Case("wrong checksum, base offset", "plain", of(right_crc=False, base_offset=4), INVALID),
    Case("wrong checksum, count", "plain", of(right_crc=False, records_count=4), CORRUPT),
    *(Case(f"magic {n}", "plain", of(magic=n), NO_BATCH) for n in (0, 1)),
    *(Case(f"magic {n}", "plain", of(magic=n), CORRUPT) for n in (3, -1, 127)),
    *(
        Case(f"length {n}", "plain", of(batch_length=n), CORRUPT)
        for n in (-1, 0, 13, 14, 48, 49, 50)
    ),
    Case("length 1000", "plain", of(batch_length=1000), NO_BATCH),
]

HEADERS = [
    Case("a good batch", "plain", of(), KEPT),
    Case("a good batch, version 3", "plain", of(), KEPT, 3),
    Case("100 records", "plain", of(numbered(100)), Kept(count=100)),
    Case("base offset 5", "plain", of(base_offset=5), INVALID),
    Case("base offset -1", "plain", of(base_offset=-1), INVALID),
    Case("a leader epoch", "plain", of(leader_epoch=7), KEPT),
    Case("a control batch", "plain", of(attributes=CONTROL), INVALID),
    Case(
        "a marker",
        "plain",
        of(
            [record(0, b"\0\0\0\1", b"\0\0\0\0\0\0")],
            attributes=CONTROL | TRANSACTIONAL,
            producer_id=9,
            producer_epoch=0,
        ),
        NOT_TRANSACTIONAL,
    ),
    Case("transactional", "plain", of(attributes=TRANSACTIONAL), NOT_TRANSACTIONAL),
    *(
        Case(f"codec {n}", "plain", of(attributes=n), UNREADABLE)  # there is none
        for n in (5, 6, 7)
    ),
    Case("a delete horizon", "plain", of(attributes=0x40), Kept(attributes=0x40)),
    Case("unknown attributes", "plain", of(attributes=0x780), Kept(attributes=0x780)),
    *(
        Case(
            f"{count} records up to {delta}",
            "plain",
            of(records_count=count, last_offset_delta=delta),
            INVALID,
        )
        for count, delta in (
            *((0, 0), (0, -1), (0, 1), (-1, 1), (-1, -2), (3, 1), (3, 2), (1, 0)),
            *((2, 5), (2, -1), (2**31 - 1, 2**31 - 2)),
        )
    ),
    Case("max.message.bytes", "small", of([record(0, b"k", bytes(230))]), Kept(((0, 0),))),
    Case("one byte more", "small", of([record(0, b"k", bytes(231))]), TOO_LARGE),
    Case("large, bad checksum", "small", of([record(0, bytes(400))], right_crc=False), TOO_LARGE),
    Case("large, at an offset", "small", of([record(0, bytes(400))], base_offset=1), INVALID),
    Case(
        "compressed, it fits",
        "small",
        of([record(0, b"k", bytes(1000))], codec=GZIP),
        Kept(((0, 0),), GZIP),
    ),
    Case(
        "segment.bytes",
        "short",
        of([record(0, bytes(2_000_000))]),
        Refused(RECORD_LIST_TOO_LARGE, tells_start=False),
    ),
    Case(
        "segment.bytes, the future",
        "short",
        of([record(0, bytes(2_000_000))], timestamp=2 * HOUR_MS),
        Refused(INVALID_TIMESTAMP, (0,)),
    ),
]

RECORDS = [
    Case("offsets 0, 0", "plain", of([record(0), record(0)]), Kept(((0, 0), (0, 0)))),
    Case("offsets 1, 2", "plain", of([record(1), record(2)]), Kept(((1, 0), (2, 0)))),
    Case("offsets 0, -5", "plain", of([record(0), record(-5)]), Kept(((0, 0), (-5, 0)))),
    Case("a record too long", "plain", of([record(0, length=100)]), INVALID),
    Case("a record one too long", "plain", of([record(0), record(1, length=13)]), INVALID),
    Case("a record too short", "plain", of([record(0, length=10), record(1)]), INVALID),
    Case("a record of length 0", "plain", of([b"\0", record(1)]), INVALID),
    Case("a record of length -1", "plain", of([varint(-1), record(1)]), INVALID),
    Case("bytes left in a record", "plain", of([record(0, extra=b"xyz"), record(1)]), INVALID),
    Case("bytes after records", "plain", of([*TWO, b"\0\0"], records_count=2, last_offset_delta=1),
         INVALID),
    Case("attributes of a record", "plain", of([record(0, attributes=127), record(1)]), KEPT),
    Case("a key of length -2", "plain", of([record_of(b"\0\0\0\3\1\0")]), Kept(((0, 0),))),
    Case("a value of length -2", "plain", of([record_of(b"\0\0\0\1\3\0")]), Kept(((0, 0),))),
    Case("neither key nor value", "plain", of([record(0, None, None)]), Kept(((0, 0),))),
    Case("headers", "plain", of([record(0, headers=[(b"a", b"1"), (b"", None)])]), Kept(((0, 0),))),
    Case("a header without a key", "plain", of([record(0, headers=[(None, b"1")])]), INVALID),
    Case("a header not in UTF-8", "plain", of([record(0, headers=[(b"\xff", b"1")])]),
         Kept(((0, 0),))),
    Case("too many headers", "plain", of([record(0, header_count=1)]), INVALID),
    Case("too few headers", "plain", of([record(0, headers=[(b"a", b"1")], header_count=0)]),
         INVALID),
    Case("-1 headers", "plain", of([record(0, header_count=-1)]), INVALID),
    Case("a billion headers", "plain", of([record(0, header_count=2**30)]), INVALID),
]  # fmt: skip

COMPACTED = [
    Case("keys", "compacted", of(), KEPT),
    Case("an empty key", "compacted", of([record(0, b"")]), Kept(((0, 0),))),
    Case("a tombstone", "compacted", of([record(0, b"k", None)]), Kept(((0, 0),))),
    Case("no key", "compacted", of([record(0, None), record(1)]), Refused(INVALID_RECORD, (0,))),
    Case("no key, version 7", "compacted", of([record(0, None)]), Refused(INVALID_RECORD, ()), 7),
    Case(
        "no keys among many",
        "compacted",
        of([record(n, b"k" if n % 9 else None) for n in range(20)]),
        Refused(INVALID_RECORD, (0, 9, 18)),
    ),
    *(
        Case(
            f"no key, codec {codec}",
            "compacted",
            of([record(0), record(1, None)], codec=codec),
            Refused(INVALID_RECORD, (1,)),
        )
        for codec in CODECS
    ),
    Case(
        "no key, and the future",
        "compacted",
        of([record(0, None), record(1, timestamp_delta=2 * HOUR_MS)], max_timestamp=2 * HOUR_MS),
        Refused(INVALID_TIMESTAMP, (0, 1)),
    ),
    Case("no key, then broken", "compacted", of([record(0, None), record(1, length=99)]), INVALID),
    Case(
        "no key, of a broker's time",
        "compacted",
        of([record(0, None), record(1)], attributes=LOG_APPEND_TIME),
        Refused(INVALID_RECORD, (0,)),
    ),
]

PRODUCERS = [
    Case("the first", "plain", of(producer_id=8001, producer_epoch=0, base_sequence=0), KEPT),
    Case("it again", "plain", of(producer_id=8001, producer_epoch=0, base_sequence=0), Repeated(2)),
    Case("a gap", "plain", of(producer_id=8001, producer_epoch=0, base_sequence=9),
         Refused(OUT_OF_ORDER_SEQUENCE_NUMBER)),
    Case("again, but broken", "plain",
         of([record(0), record(1, length=99)], producer_id=8001, producer_epoch=0, base_sequence=0),
         INVALID),
    Case("no sequence", "plain", of(producer_id=8002, producer_epoch=0), INVALID),
    Case("no epoch", "plain", of(producer_id=8003, base_sequence=0), KEPT),
    Case("a producer below none", "plain", of(producer_id=-2, base_sequence=0), KEPT),
    Case("a sequence of nobody", "plain", of(base_sequence=5), KEPT),
    Case("stamped", "stamped", of(producer_id=8004, producer_epoch=0, base_sequence=0), STAMPED),
    Case("stamped, again", "stamped", of(producer_id=8004, producer_epoch=0, base_sequence=0),
         Repeated(2, is_stamped=True)),
    Case("compressed anew", "gzip", of(producer_id=8005, producer_epoch=0, base_sequence=0),
         Kept(attributes=GZIP)),
    Case("compressed anew, again", "gzip", of(producer_id=8005, producer_epoch=0, base_sequence=0),
         Repeated(2)),
]  # fmt: skip


def compressed(codec: int) -> list[Case]:
    """Records in one codec, whole and broken, on a topic that keeps it."""
    kept = Kept(attributes=codec)
    cut = bytes(compress(codec, BODY))[:-3]
    moved = [record(0), record(1, timestamp_delta=7)]
    old = Refused(UNSUPPORTED_COMPRESSION_TYPE, tells_start=False) if codec == ZSTD else kept
    cases: list[tuple[str, Callable[[int], bytes], Answer, int]] = [
        ("good", of(codec=codec), kept, 11),
        ("version 6", of(codec=codec), old, 6),
        ("garbage", of(codec=codec, payload=b"\1\2garbage-garbage"), UNREADABLE, 11),
        ("cut", of(codec=codec, payload=cut), UNREADABLE, 11),
        ("empty", of(codec=codec, payload=b""), INVALID if codec == ZSTD else UNREADABLE, 11),
        ("not compressed", of(codec=codec, payload=BODY), UNREADABLE, 11),
        ("too few", of(codec=codec, records_count=3, last_offset_delta=2), INVALID, 11),
        ("too many", of(codec=codec, records_count=1, last_offset_delta=0), INVALID, 11),
        ("offsets 0, 5", of([record(0), record(5)], codec=codec), UNREADABLE, 11),
        ("max timestamp", of(moved, codec=codec, max_timestamp=3),
         Kept(((0, 0), (1, 7)), codec, 7), 11),
        ("stamped", of(codec=codec), STAMPED._replace(attributes=LOG_APPEND_TIME | codec), 11),
    ]  # fmt: skip
    return [
        Case(f"codec {codec}: {name}", "stamped" if name == "stamped" else "plain", *rest)
        for name, *rest in cases
    ]


def recompressed(topic: str, codec: int, kept: Kept) -> list[Case]:
    """Records in every codec for a topic that wants ``codec``, and what is put right on the way."""
    is_stamped = kept.max_timestamp is None
    times = [record(0), record(1, timestamp_delta=50), record(2, timestamp_delta=-50)]
    timed = ((0, 0), (1, 50), (2, -50))
    stamped = tuple((n, None) for n in range(3))
    same = codec == NONE
    odd = kept if not same else kept._replace(attributes=0x7C0)
    return [
        *(
            Case(f"{topic} from {source}", topic, of(numbered(30), codec=source),
                 kept._replace(count=30))
            for source in range(5)
        ),
        Case(f"{topic}: odd attributes", topic, of(attributes=0x7C0), odd),
        Case(f"{topic}: times", topic, of(times, max_timestamp=50),
             kept._replace(records=stamped if is_stamped else timed,
                           max_timestamp=None if is_stamped else 50)),
        Case(f"{topic}: too few", topic, of(records_count=3, last_offset_delta=2), INVALID),
        Case(f"{topic}: bytes left", topic,
             of([*TWO, b"\0\0"], records_count=2, last_offset_delta=1), INVALID),
        Case(f"{topic}: offsets 0, 5", topic,
             of([record(0), record(5)], codec=SNAPPY), kept),
        Case(f"{topic}: garbage", topic, of(codec=SNAPPY, payload=b"garbage"), UNREADABLE),
    ]  # fmt: skip


CASES: list[Case] = [
    *FRAMING,
    *HEADERS,
    *RECORDS,
    *COMPACTED,
    *PRODUCERS,
    *(case for codec in CODECS for case in compressed(codec)),
    *recompressed("gzip", GZIP, Kept(attributes=GZIP)),
    *recompressed("lz4", LZ4, Kept(attributes=LZ4)),
    *recompressed("uncompressed", NONE, Kept()),
    *recompressed("stamped-zstd", ZSTD, STAMPED._replace(attributes=LOG_APPEND_TIME | ZSTD)),
    Case("it grows", "uncompressed", of([record(0, bytes(1000))], codec=ZSTD), TOO_LARGE),
    Case("it would shrink", "gzip", of([record(0, bytes(2_000_000))]), TOO_LARGE),
]
"""All but those about time."""
