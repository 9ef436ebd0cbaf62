"""The picture of the demo: how late the flights of each carrier were."""

from collections.abc import Mapping
from pathlib import Path

from demo.flights import Delays


def draw(delays: Mapping[str, Delays], path: Path) -> None:
    """Write a picture, in the format that the file's name says (PNG, SVG)."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    by_delay = sorted(delays.items(), key=lambda item: mean(item[1].arr_sum, item[1].arr_count))
    carriers = [carrier for carrier, _ in by_delay]
    figure, axes = pyplot.subplots(figsize=(9, 6), layout="constrained")
    places = range(len(carriers))
    for shift, label, color, values in (
        (0.2, "departure", "#4477aa", [mean(one.dep_sum, one.dep_count) for _, one in by_delay]),
        (-0.2, "arrival", "#ee6677", [mean(one.arr_sum, one.arr_count) for _, one in by_delay]),
    ):
        axes.barh([at + shift for at in places], values, 0.4, label=label, color=color)
    names = [f"{carrier}  ({delays[carrier].flights:,})" for carrier in carriers]
    axes.set_yticks(list(places), names)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("minutes late, on average")
    axes.set_ylabel("carrier (flights)")
    axes.set_title("Departures from New York in 2013")
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def mean(total: float, count: int) -> float:
    """The mean; 0 of nothing."""
    return total / count if count else 0.0
