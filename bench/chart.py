"""The charts: how many times better kwire is, row by row, and how cost grows."""

from pathlib import Path
from typing import Any

from bench.brokers import PURE, titles
from bench.report import Growth, Run, main_lines

TICKS = [whole * 10.0**power for power in range(-3, 4) for whole in (1, 2, 5)]
AHEAD, BEHIND = "#2a6f97", "#c1121f"


def _pyplot() -> Any:
    """matplotlib without a screen, and the same file for the same numbers."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot

    return pyplot


def draw_ratios(run: Run, target: Path) -> None:
    """Write the chart as SVG: the rows that have a bar of their own, on a logarithmic axis."""
    pyplot = _pyplot()
    lines = [line for line in main_lines(run) if line.advantages[line.subject] is not None]
    if not lines:
        return
    values = [line.advantages[line.subject] or 1.0 for line in lines]
    figure, axis = pyplot.subplots(figsize=(10, 1 + 0.32 * len(lines)))
    places = range(len(lines))
    colours = [BEHIND if line.missed else AHEAD for line in lines]
    axis.barh(places, [value - 1 for value in values], left=1, color=colours, height=0.6)
    for place, line, value in zip(places, lines, values, strict=True):
        pure = line.advantages.get(PURE) or value
        at, side = (max(value, pure) * 1.06, "left")
        if value < 1:
            at, side = (min(value, pure) / 1.06, "right")
        axis.text(at, place, f"{value:.3g}x", va="center", ha=side, fontsize=8)
        if not line.bar.absolute:
            limit = line.bar.limit if line.row.more_is_better else 1 / line.bar.limit
            axis.plot([limit, limit], [place - 0.42, place + 0.42], color="black", linewidth=1.5)
        if line.subject != PURE and pure != value:
            axis.plot(pure, place, marker="o", color="white", markeredgecolor="black", ms=5)
    axis.set_xscale("log")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_yticks(list(places), [line.row.name for line in lines], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    lowest, highest = axis.get_xlim()
    ticks = [one for one in TICKS if lowest <= one <= highest]
    axis.set_xticks(ticks, [f"{one:g}x" for one in ticks])
    axis.minorticks_off()
    dots = "; dots: pure Python" if any(PURE in line.advantages for line in lines[:1]) else ""
    bars = "black: the bar; red: it is missed"
    axis.set_xlabel(f"times better than Apache Kafka 4.3.1; {bars}{dots}")
    axis.grid(visible=True, axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)


def draw_growth(growth: Growth, target: Path) -> None:
    """One column for each curve: latency and CPU, both axes logarithmic."""
    if not growth:
        return
    pyplot = _pyplot()
    measures = (("p50_us", "p50, µs"), ("p99_us", "p99, µs"), ("cpu_us", "CPU a request, µs"))
    size = (4 * len(growth), 3 * len(measures))
    figure, axes = pyplot.subplots(len(measures), len(growth), figsize=size, squeeze=False)
    for column, (curve, grown) in enumerate(growth.items()):
        names = titles(list(grown["points"]))
        for row, (what, unit) in enumerate(measures):
            axis = axes[row][column]
            for name, points in grown["points"].items():
                places = [one["x"] for one in points]
                axis.plot(places, [one[what] for one in points], marker="o", label=names[name])
            axis.set(xscale="log", yscale="log", xlabel=curve, ylabel=unit)
            axis.grid(visible=True, which="major", alpha=0.3)
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
