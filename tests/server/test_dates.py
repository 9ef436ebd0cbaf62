"""What goes by the date, as in Kafka, follows the date when somebody sets it.

The others of ``docs/decisions/0018-two-clocks.md`` are in ``test_clock_jumps``.
"""

from pathlib import Path

import pytest

from tests.server.test_clock_jumps import (
    AHEAD_A_WEEK,
    BACK_AN_HOUR,
    DAY_MS,
    HOUR_MS,
    SETTINGS,
    WEEK_MS,
    Bench,
    Fired,
    with_bench,
)


async def old_records(bench: Bench) -> Fired:
    """retention.ms: records that are older go, by their timestamps."""
    bench.append()
    log = bench.broker.partition("t", 0).log
    return lambda: log.log_start_offset == 1


async def old_segment(bench: Bench) -> Fired:
    """segment.ms: the next record after that time begins a segment, by the date."""
    bench.append()
    log = bench.broker.partition("t", 0).log

    def is_rolled() -> bool:
        bench.append()
        return len(log.segments) > 1

    return is_rolled


@pytest.mark.parametrize(
    ("step_ms", "passed_ms", "goes"),
    [
        (BACK_AN_HOUR, DAY_MS, False),
        (BACK_AN_HOUR, DAY_MS + 2 * HOUR_MS, True),
        (AHEAD_A_WEEK, HOUR_MS, True),
        (0, WEEK_MS, True),
        (0, HOUR_MS, False),
    ],
    ids=["back", "back, later", "ahead", "sleep", "nothing"],
)
async def test_retention_by_timestamps_follows_the_date(
    tmp_path: Path, step_ms: int, passed_ms: int, goes: bool
) -> None:
    """As in Kafka: timestamps are dates, of clients. A date that is set back deletes nothing
    early."""

    async def test(bench: Bench) -> None:
        fired = await old_records(bench)
        bench.clock.set_date(step_ms)
        bench.clock.pass_time(passed_ms)
        await bench.tick()
        assert fired() is goes

    await with_bench(tmp_path, test, SETTINGS | {"log.retention.ms": str(DAY_MS)})


@pytest.mark.parametrize(
    ("step_ms", "passed_ms", "is_rolled"),
    [
        (BACK_AN_HOUR, DAY_MS, False),
        (BACK_AN_HOUR, DAY_MS + 2 * HOUR_MS, True),
        (AHEAD_A_WEEK, 0, True),
        (0, WEEK_MS, True),
        (0, HOUR_MS, False),
    ],
    ids=["back", "back, later", "ahead", "sleep", "nothing"],
)
async def test_a_segment_is_rolled_by_the_date(
    tmp_path: Path, step_ms: int, passed_ms: int, is_rolled: bool
) -> None:
    """Its age is told by its records' timestamps, which are dates."""

    async def test(bench: Bench) -> None:
        fired = await old_segment(bench)
        bench.clock.set_date(step_ms)
        bench.clock.pass_time(passed_ms)
        assert fired() is is_rolled

    await with_bench(tmp_path, test, SETTINGS | {"log.roll.ms": str(DAY_MS)})
