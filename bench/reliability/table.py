"""The figures of the scenarios as one table: kwire, Apache Kafka, and the bars."""

from collections.abc import Mapping, Sequence

from bench.cluster.measure import percentile
from bench.reliability.checks import Outcome
from bench.reliability.clusters import KAFKA, KWIRE
from bench.reliability.scenarios import Seen

BARS_S = {
    ("P1", "pause of the leader's partitions"): 1.0,
    ("P1", "the same for a consumer"): 1.5,
    ("P2", "pause of the frozen leader's partitions"): 4.0,
    ("P3", "pause of the controller's partitions"): 1.5,
    ("P3", "until a topic is created"): 1.0,
    ("P4", "longest pause of any partition"): 0.3,
    ("P5", "longest pause of any partition"): 0.5,
    ("P6", "longest pause of any partition"): 1.0,
    ("P6", "from its start until it is in sync"): 3.0,
    ("P7", "from the operator's command until it leads"): 1.0,
    ("P7", "from its start until it leads by the setting"): 1.0,
    ("P8", "from the network's return until all have an answer"): 2.0,
    ("P8", "the same where only a leader was cut off"): 2.0,
    ("P10", "pause of its partitions"): 4.0,
    ("P11", "until a topic is created"): 2.0,
}
"""The bar of the 95th percentile of kwire's trials."""

SHARES = {("P5", "the whole round"): 0.2}
"""Bars that are a part of what Apache Kafka takes in the same run."""

BROKE_OFF = "broke off"
"""What a scenario has to show that ended before its time; its seconds say nothing."""

FAULTS = {
    "P1": "a leader gets SIGKILL",
    "P2": "a leader is frozen for 30 s",
    "P3": "the controller gets SIGKILL",
    "P4": "the controller is restarted",
    "P5": "all brokers are restarted in turn",
    "P6": "all brokers get SIGKILL in turn",
    "P7": "only a replica that lacks records is up, and may lead",
    "P8": "clients are cut off for 60 s; from a leader alone for 20 s",
    "P10": "a leader is cut off from brokers and etcd, not from clients",
    "P11": "etcd loses its leader; then all of etcd is gone for 60 s",
    "P12": "a broker comes back with an empty disk",
    "P13": "a broker's disk is full for 20 s",
    "P14": "a broker's cable to the others is slow: 100 ms, 3 Mbit/s",
}


def shown(seconds: Sequence[float]) -> str:
    """Median, 95th percentile and longest of some trials; the figure itself of one."""
    if not seconds:
        return ""
    if len(seconds) == 1:
        return f"{seconds[0]:.2f}"
    numbers = (percentile(seconds, 0.5), percentile(seconds, 0.95), max(seconds))
    return " / ".join(f"{number:.2f}" for number in numbers)


def table(seen: Mapping[str, Sequence[Seen]]) -> str:
    """One row for each figure, as Markdown."""
    keys = dict.fromkeys((one.scenario, one.what) for rows in seen.values() for one in rows)
    lines = [
        f"| | fault | seconds | {KWIRE} | {KAFKA} | bar | |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for key in sorted(keys, key=lambda k: (_number(k[0]), k[1])):
        times = {
            name: [one.seconds for one in rows if (one.scenario, one.what) == key]
            for name, rows in seen.items()
        }
        lines.append(_row(key, times.get(KWIRE, []), times.get(KAFKA, [])))
    return "\n".join(lines)


def _row(key: tuple[str, str], own: Sequence[float], kafkas: Sequence[float]) -> str:
    """The row of one figure, with kwire's trials and Apache Kafka's."""
    scenario, what = key
    if what == BROKE_OFF:
        cells = [BROKE_OFF if times else "" for times in (own, kafkas)]
        verdict = "not met" if own else ""
        return f"| {scenario} | {FAULTS[scenario]} | | {' | '.join(cells)} | | {verdict} |"
    bar, verdict = BARS_S.get(key), ""
    if key in SHARES and kafkas:
        bar = SHARES[key] * percentile(kafkas, 0.5)
    if bar is not None and own:
        verdict = "met" if percentile(own, 0.95) <= bar else "not met"
    cells = [scenario, FAULTS[scenario], what, shown(own), shown(kafkas)]
    return f"| {' | '.join([*cells, '' if bar is None else f'≤ {bar:.3g}', verdict])} |"


def outcomes(found: Mapping[str, Mapping[str, Outcome]]) -> str:
    """What was lost, doubled, or told to the application, as Markdown."""
    lines = [
        "| | | acknowledged records | lost | doubled | errors told to the producers |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    rows = [(_number(scenario), name) for name, rows in found.items() for scenario in rows]
    for number, name in sorted(rows, key=lambda row: (row[0], list(found).index(row[1]))):
        one = found[name][f"P{number}"]
        lines.append(f"| P{number} | {name} | {' | '.join(f'{n:,}' for n in one)} |")
    return "\n".join(lines)


def _number(scenario: str) -> int:
    return int(scenario[1:])
