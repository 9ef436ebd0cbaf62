"""What a request costs, counted, not timed; a test fails when one of the numbers grows.

``costs.tsv`` holds what fixed sequences of requests cost when it was last renewed. Whoever lets a
number grow for a reason renews it: ``make costs``. The numbers are of the oldest Python that is
supported; later ones call less, but for a path now and then, whose parts pathlib takes from more
functions. ``meter`` says what is counted, ``desk`` why it is always the same.

Each sequence is run to warm up, so that what is loaded or compiled on first use doesn't count, then
some times for the work, MEMORY_REPEATS times for the memory, and some times more for ``bytes
kept``: what is there afterwards that wasn't there before, for each time.
"""

import gc
import os
import sys
import tracemalloc
from pathlib import Path
from statistics import median

import pytest

from tests.performance.desk import desk, stand_still
from tests.performance.meter import SEES_INSTRUCTIONS, MemoryMeter, WorkMeter
from tests.performance.sequences import ALL, LARGE, MANY_PARTITIONS

COSTS = Path(__file__).parent / "costs.tsv"
RENEW = "KWIRE_RENEW_COSTS"
WARM_UP = 3
REPEATS = 25
FEW_REPEATS = 4
MEMORY_REPEATS = 3
KEPT_REPEATS = 50
FEW_KEPT_REPEATS = 15
TOLERANCE = {
    "bytes allocated": (1.002, 128),  # earlier tests of the same process leave caches behind
    "bytes copied": (1.1, 512 if SEES_INSTRUCTIONS else 8192),
    "bytes kept": (1.01, 8),  # one object that a cache keeps, divided by few repeats
    "peak bytes": (1.15, 1024),  # a list or dictionary may just be growing
}
"""How much more memory is no growth: a part of what was recorded, and bytes."""

TRIES = 4
"""A growth shows itself each time."""


async def measure_work(clients, nth, repeats):
    """Calls, system calls and wake-ups each time."""
    with WorkMeter() as meter:
        for n in range(WARM_UP, WARM_UP + repeats):
            await clients.run(nth(n))
    return {name: count / repeats for name, count in meter.counts.items()}


async def measure_memory(clients, nth, start):
    """Bytes allocated, copied and at the peak, each time: what it nearly always is."""
    meters = []
    for n in range(start, start + MEMORY_REPEATS):
        stages = nth(n)
        gc.collect()
        with MemoryMeter() as meter:
            await clients.run(stages)
        meter.close()
        meters.append(meter.counts)
    return {name: median(counts[name] for counts in meters) for name in meters[0]}


async def measure_kept(clients, nth, start, repeats):
    """Bytes that are still there, each time."""
    runs = [nth(n) for n in range(start, start + WARM_UP + repeats)]
    for stages in runs[:WARM_UP]:
        await clients.run(stages)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for stages in runs[WARM_UP:]:
        await clients.run(stages)
    gc.collect()
    return {"bytes kept": (tracemalloc.get_traced_memory()[0] - before) / repeats}


async def measured(sequence, directory):
    """What one sequence costs, by name."""
    few = sequence in MANY_PARTITIONS
    repeats = FEW_REPEATS if few else REPEATS
    kept_repeats = FEW_KEPT_REPEATS if few else KEPT_REPEATS
    async with desk(directory) as clients:
        nth = await ALL[sequence](clients)
        for n in range(WARM_UP):
            await clients.run(nth(n))
        gc.disable()
        gc.freeze()  # what is garbage now is no matter: to find it takes longer than all the rest
        try:
            work = await measure_work(clients, nth, repeats)
            tracemalloc.start(1)
            start = WARM_UP + repeats
            memory = await measure_memory(clients, nth, start)
            memory |= await measure_kept(clients, nth, start + MEMORY_REPEATS, kept_repeats)
        finally:
            tracemalloc.stop()
            gc.unfreeze()
            gc.enable()
    return memory if sequence in LARGE else {**work, **memory}


def read_costs():
    """What was recorded: sequence → name → number."""
    recorded = {}
    for line in COSTS.read_text(encoding="utf-8").splitlines()[1:]:
        sequence, name, number = line.split("\t")
        recorded.setdefault(sequence, {})[name] = float(number)
    return recorded


def record(sequence, costs):
    """Renew what was recorded of a sequence."""
    recorded = read_costs() if COSTS.exists() else {}
    recorded[sequence] = costs
    rows = [
        f"{sequence}\t{name}\t{number:.10g}"
        for sequence in ALL
        for name, number in sorted(recorded.get(sequence, {}).items())
    ]
    COSTS.write_text("\n".join(["sequence\twhat\teach time", *rows, ""]), encoding="utf-8")


def allowed(name, recorded):
    """How much something may cost; an object is a little larger here and there."""
    if name in TOLERANCE:
        times, more = TOLERANCE[name]
        return recorded * times + more
    return recorded + (name == "calls" and sys.version_info >= (3, 12))


def grown(costs, recorded):
    """What costs more than was recorded."""
    return [
        f"{name} grew from {recorded.get(name, 0):g} to {number:g}"
        for name, number in costs.items()
        if number > allowed(name, recorded.get(name, 0))
    ]


@pytest.mark.parametrize("sequence", ALL)
async def test_no_request_costs_more_than_it_did(tmp_path, mock_clock, monkeypatch, sequence):
    stand_still(monkeypatch)
    costs = await measured(sequence, tmp_path)
    if os.environ.get(RENEW):
        record(sequence, costs)
    more = grown(costs, read_costs()[sequence])
    for again in range(TRIES - 1):  # what other tests of the process leave behind adds now and then
        if more:
            directory = tmp_path / str(again)
            directory.mkdir()
            more = grown(await measured(sequence, directory), read_costs()[sequence])
    assert not more, f"{sequence}: {'; '.join(more)}; if it is worth it: make costs"
