"""The chart of the ratios: how many times better kwire is, row by row, and where its bar is."""

from pathlib import Path

from bench.report import Run, main_lines

AHEAD, BEHIND = "#2a6f97", "#c1121f"


def draw_ratios(run: Run, target: Path) -> None:
    """Write the chart as SVG: the rows that have a bar of their own, on a logarithmic axis."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kwire"
    from matplotlib import pyplot

    lines = [line for line in main_lines(run) if line.advantage is not None]
    if not lines:
        return
    values = [line.advantage or 1.0 for line in lines]
    figure, axis = pyplot.subplots(figsize=(10, 1 + 0.32 * len(lines)))
    places = range(len(lines))
    colours = [BEHIND if line.met is False else AHEAD for line in lines]
    axis.barh(places, [value - 1 for value in values], left=1, color=colours, height=0.6)
    for place, line, value in zip(places, lines, values, strict=True):
        axis.text(value * (1.03 if value >= 1 else 1 / 1.03), place, f"{value:.3g}x",
                  va="center", ha="left" if value >= 1 else "right", fontsize=8)  # fmt: skip
        if not line.bar.absolute:
            limit = line.bar.limit if line.row.more_is_better else 1 / line.bar.limit
            axis.plot([limit, limit], [place - 0.42, place + 0.42], color="black", linewidth=1.5)
    axis.set_xscale("log")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_yticks(list(places), [line.row.name for line in lines], fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.12)
    axis.xaxis.set_major_formatter("{x:g}x")
    axis.set_xlabel("times better than Apache Kafka 4.3.1; the black mark is the bar")
    axis.grid(visible=True, axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})
    pyplot.close(figure)
