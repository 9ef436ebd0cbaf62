"""Scenarios with pulled cables: clients that are cut off, and a broker that is.

Source of the cables: ``bench.reliability.network``.
"""

import time
from collections.abc import Iterator

from bench.reliability.clusters import Cables
from bench.reliability.network import CLIENTS, CLUSTER
from bench.reliability.scenarios import IN_FLIGHT_S, PARTITIONS, Scenarios, Seen

CUT_S = 60.0
CUT_FROM_LEADER_S = 20.0
CUT_BROKER_S = 20.0


def _network(scenarios: Scenarios) -> Cables:
    network = scenarios.trial.network
    assert network is not None
    return network


def clients_cut(scenarios: Scenarios) -> Iterator[Seen]:
    """P8: all clients are cut off for a minute; then from one leader alone."""
    network, everything = _network(scenarios), list(range(PARTITIONS))
    nodes = list(scenarios.trial.nodes)
    busiest = scenarios.busiest()
    for what, cut, partitions, cut_s in (
        ("from the network's return until all have an answer", nodes, everything, CUT_S),
        (
            "the same where only a leader was cut off",
            [busiest],
            scenarios.led_by(busiest),
            CUT_FROM_LEADER_S,
        ),
    ):
        for node_id in cut:
            network.cut(node_id, CLIENTS)
        time.sleep(cut_s)
        for node_id in cut:
            network.heal(node_id, CLIENTS)
        began_s = time.monotonic()
        yield Seen("P8", what, scenarios.load.wait(partitions, began_s))
        scenarios.load.wait(everything)


def broker_cut(scenarios: Scenarios) -> Iterator[Seen]:
    """P10: a leader can't reach brokers and etcd, but its clients reach it."""
    network, victim = _network(scenarios), scenarios.busiest()
    own = scenarios.led_by(victim)
    rest = [index for index in range(PARTITIONS) if index not in own]
    scenarios.trial.down.add(victim)  # what it knows of the cluster is old
    began_s = time.monotonic()
    network.cut(victim, CLUSTER)
    scenarios.load.wait([*own, *rest], began_s + IN_FLIGHT_S)
    yield scenarios.pause("P10", "pause of its partitions", own, began_s)
    if rest:
        yield scenarios.pause("P10", "pause of other brokers' partitions", rest, began_s)
    time.sleep(max(0.0, began_s + CUT_BROKER_S - time.monotonic()))
    network.heal(victim, CLUSTER)
    yield Seen("P10", "from its return until it is in sync", scenarios.whole())
    scenarios.trial.down.discard(victim)
