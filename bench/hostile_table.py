"""The waits of well-behaved clients beside hostile ones, as Markdown."""

import math
from typing import TypeAlias

from bench.brokers import titles
from bench.markdown import table

ALONE = "nobody hostile"
CONTROL = "nobody hostile, two other programs compute"
"""What sharing two processors costs the neighbours, without any request of an attacker."""

MOST_TIMES = 5.0
MOST_MS = 100.0

Kept: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""By attack and broker: ``p50_ms``, ``p99_ms``, ``longest_ms`` and ``more_mb``."""


def hostile_part(results: Kept) -> str:
    """The table, and how many attacks keep within the aims of issue 14."""
    names = list(results[ALONE])
    head = ["what the hostile client sends"]
    for title in titles(names).values():
        head += [f"{title}: p99 ms", "x alone", "longest ms", "MB more"]
    rows = [head]
    for attack, by_broker in results.items():
        row = [attack]
        for name in names:
            row += _cells(by_broker.get(name), results[ALONE][name])
        rows.append(row)
    return f"{table(rows, 1)}\n{_summary(results, names)}"


def _cells(waits: dict[str, float] | None, alone: dict[str, float]) -> list[str]:
    if waits is None:
        return ["-"] * 4
    if math.isinf(waits["p99_ms"]):
        return ["no answer", "-", "-", "-"]
    times = waits["p99_ms"] / alone["p99_ms"]
    return [
        f"{waits['p99_ms']:.2f}",
        f"{times:.1f}",
        f"{waits['longest_ms']:.0f}",
        f"{waits['more_mb']:.0f}",
    ]


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
        short = sum(one["longest_ms"] <= MOST_MS for one in waits)
        dead = sum(math.isinf(one["p99_ms"]) for one in waits)
        beside_two = f" ({fair}: at most {MOST_TIMES:g} x that beside two other programs)"
        lines.append(
            f"- {titles([name])[name]}: p99 at most {MOST_TIMES:g} x that without an attack in"
            f" {calm} of {len(waits)} attacks{beside_two if CONTROL in results else ''},"
            f" longest wait at most {MOST_MS:g} ms in {short}, no answer any more in {dead}."
        )
    return "\n".join(lines) + "\n"
