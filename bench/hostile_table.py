"""The waits of well-behaved clients beside hostile ones, as Markdown."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from bench.brokers import titles
from bench.markdown import table

ALONE = "nobody hostile"
CONTROL = "nobody hostile, two other programs compute"
"""What sharing two processors costs the neighbors, without any request of an attacker."""

MOST_TIMES = 5.0
MOST_MS = 100.0
MOST_MB = 100.0
MOST_OF_REQUEST = 10.0
"""Memory above idle is at most ``MOST_MB``, and so many times what the attacker sends at once."""

HEADS = ("p99 ms", "x alone", "longest ms", "flushed ms", "new topic ms", "request MB", "MB more")

Kept: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""By attack and broker, the fields of ``bench.hostile.Waits``; an older run lacks some of them."""


def merged(before: Kept, now: Kept, attacks: Sequence[str]) -> Kept:
    """The newest waits of each of these attacks and each broker, from two runs.

    A run may lack attacks and brokers. ``before`` may have attacks that exist no more.
    """
    names = (ALONE, CONTROL, *attacks)
    rows = {name: before.get(name, {}) | now.get(name, {}) for name in names}
    return {name: row for name, row in rows.items() if row}


def hostile_part(results: Kept) -> str:
    """The table, and how many attacks keep within the aims."""
    names = list(results[ALONE])
    head = ["what the hostile client sends"]
    for title in titles(names).values():
        head += [f"{title}: {HEADS[0]}", *HEADS[1:]]
    rows = [head]
    for attack, by_broker in results.items():
        row = [attack]
        for name in names:
            row += cells_of(by_broker.get(name), results[ALONE][name])
        rows.append(row)
    return f"{table(rows, 1)}\n{_summary(results, names)}"


def cells_of(waits: dict[str, float] | None, alone: dict[str, float]) -> list[str]:
    """The cells of one attack and broker, as ``HEADS`` names them; "-" for what isn't known."""
    if waits is None:
        return ["-"] * len(HEADS)
    if math.isinf(waits["p99_ms"]):
        return ["no answer", *["-"] * (len(HEADS) - 1)]
    whole = (waits.get(name) for name in ("longest_ms", "flush_ms", "create_ms"))
    request_mb = waits.get("request_mb")
    return [
        f"{waits['p99_ms']:.2f}",
        f"{waits['p99_ms'] / alone['p99_ms']:.1f}",
        *(
            "-" if wait is None else "never" if math.isinf(wait) else f"{wait:.0f}"
            for wait in whole
        ),
        "-" if request_mb is None else f"{request_mb:.1f}",
        f"{waits['more_mb']:.0f}",
    ]


def _is_short(waits: dict[str, float]) -> bool:
    """Whether nobody waits longer than the aim, whatever for."""
    names = ("longest_ms", "flush_ms", "create_ms")
    return all(waits.get(name, 0.0) <= MOST_MS for name in names)


def _is_small(waits: dict[str, float]) -> bool:
    """Whether the broker's additional memory is within the aim."""
    return waits["more_mb"] <= MOST_MB + MOST_OF_REQUEST * waits.get("request_mb", 0.0)


def _summary(results: Kept, names: list[str]) -> str:
    lines = []
    for name in names:
        alone = results[ALONE][name]["p99_ms"]
        beside = results.get(CONTROL, {}).get(name, {}).get("p99_ms", math.nan)
        waits = [
            row[name]
            for attack, row in results.items()
            if attack not in (ALONE, CONTROL) and name in row
        ]
        calm = sum(one["p99_ms"] <= MOST_TIMES * alone for one in waits)
        fair = sum(one["p99_ms"] <= MOST_TIMES * beside for one in waits)
        short = sum(map(_is_short, waits))
        small = sum(map(_is_small, waits))
        dead = sum(math.isinf(one["p99_ms"]) for one in waits)
        beside_two = f" ({fair}: at most {MOST_TIMES:g} x that beside two other programs)"
        lines.append(
            f"- {titles([name])[name]}: p99 at most {MOST_TIMES:g} x that without an attack in"
            f" {calm} of {len(waits)} attacks{beside_two if CONTROL in results else ''},"
            f" longest wait of anybody at most {MOST_MS:g} ms in {short}, memory at most"
            f" {MOST_MB:g} MB and {MOST_OF_REQUEST:g} x the requests above idle in {small}, no"
            f" answer any more in {dead}."
        )
    return "\n".join(lines) + "\n"
