"""Batches whose timestamps are odd, and what Apache Kafka says to each of them."""

from compat_tests.batch_cases import (
    HOUR_MS,
    INVALID_TIMESTAMP,
    KEPT,
    LZ4,
    STAMPED,
    Case,
    Kept,
    Refused,
    of,
)
from compat_tests.raw_batches import LOG_APPEND_TIME, record

AHEAD = 2 * HOUR_MS
WRONG = Refused(INVALID_TIMESTAMP, (0, 1))
ONE_AHEAD = [record(0), record(1, timestamp_delta=AHEAD), record(2)]
MOVED = [record(0), record(1, timestamp_delta=7)]
MOVED_KEPT = Kept(((0, 0), (1, 7)), max_timestamp=7)
UNKNOWN = Kept(((0, "-1"), (1, "-1")), max_timestamp="-1")

TIMES = [
    Case("no timestamp", "plain", of(timestamp="-1"), UNKNOWN),
    Case("half an hour ahead", "plain", of(timestamp=HOUR_MS // 2),
         Kept(((0, HOUR_MS // 2), (1, HOUR_MS // 2)), max_timestamp=HOUR_MS // 2)),
    Case("two hours ahead", "plain", of(timestamp=AHEAD), WRONG),
    Case("two hours ahead, version 8", "plain", of(timestamp=AHEAD), WRONG, 8),
    Case("two hours ahead, version 7", "plain", of(timestamp=AHEAD),
         Refused(INVALID_TIMESTAMP), 7),
    Case("one ahead", "plain", of(ONE_AHEAD, max_timestamp=AHEAD),
         Refused(INVALID_TIMESTAMP, (1,))),
    Case("one ahead, hidden", "plain", of(ONE_AHEAD), Refused(INVALID_TIMESTAMP, (1,))),
    Case("one ahead, compressed", "plain", of(ONE_AHEAD, max_timestamp=AHEAD, codec=LZ4),
         Refused(INVALID_TIMESTAMP, (1,))),
    Case("only the max timestamp ahead", "plain", of(max_timestamp=AHEAD), KEPT),
    Case("max timestamp too low", "plain", of(MOVED, max_timestamp=0), MOVED_KEPT),
    Case("max timestamp too high", "plain", of(MOVED, max_timestamp=9999), MOVED_KEPT),
    Case("no max timestamp", "plain", of(MOVED, max_timestamp="-1"), MOVED_KEPT),
    Case("before 1970", "plain", of([record(0, timestamp_delta=-10)], timestamp="5"),
         Kept(((0, "-5"),), max_timestamp="-1")),
    Case("base before 1970", "plain", of([record(0)], timestamp="-5"),
         Kept(((0, "-5"),), max_timestamp="-1")),
    Case("says it was stamped", "plain", of(attributes=LOG_APPEND_TIME), KEPT),
    Case("says it was stamped at -1", "plain", of(attributes=LOG_APPEND_TIME, timestamp="-1"),
         WRONG),
    Case("stamped already", "stamped", of(attributes=LOG_APPEND_TIME), WRONG),
    Case("stamped", "stamped", of(), STAMPED),
    Case("stamped, no timestamp", "stamped", of(timestamp="-1"), STAMPED),
    Case("stamped, two hours ahead", "stamped", of(timestamp=AHEAD), STAMPED),
    Case("old", "recent", of(timestamp=-AHEAD), WRONG),
    Case("old, one of many", "recent",
         of([record(n, timestamp_delta=-AHEAD if n == 17 else 0) for n in range(20)]),
         Refused(INVALID_TIMESTAMP, (17,))),
    Case("old, compressed", "recent", of([record(0), record(1, timestamp_delta=-AHEAD)], codec=LZ4),
         Refused(INVALID_TIMESTAMP, (1,))),
    Case("old and ahead", "recent",
         of([record(0, timestamp_delta=-AHEAD), record(1), record(2, timestamp_delta=AHEAD)],
            max_timestamp=AHEAD),
         Refused(INVALID_TIMESTAMP, (0, 2))),
    Case("recent", "recent", of(), KEPT),
    Case("recent, no timestamp", "recent", of(timestamp="-1"), UNKNOWN),
]  # fmt: skip
