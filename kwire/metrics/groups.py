"""Samples about groups, their lag, and transactions.

The first ``kwire.metrics.max.groups`` groups have series of their own, and as many of their
partitions as ``kwire.metrics.max.partitions`` allows. The number of groups counts all of them.
"""

from collections import Counter

from kwire.broker.broker import Broker
from kwire.broker.groups import LoadedCoordinator
from kwire.budget.slices import Slices
from kwire.coordinator.group import GroupType
from kwire.metrics.samples import Samples


async def gather_groups(broker: Broker, slices: Slices, samples: Samples) -> None:
    """Add the samples of groups; none before a client has asked for a group."""
    if "groups" not in vars(broker):
        return
    counts: Counter[tuple[str, str]] = Counter()
    groups_left = broker.integer("kwire.metrics.max.groups")
    partitions_left = broker.integer("kwire.metrics.max.partitions")
    left_out = 0
    for home in broker.groups.loaded():
        for group_id in home.coordinator.group_ids():
            await slices.give_way()
            state = home.coordinator.state_of(group_id)
            if state is None:
                continue
            group = home.coordinator.groups.get(group_id)
            counts[(group.kind if group else GroupType.CLASSIC).value, state] += 1
            if not groups_left:
                left_out += 1
                continue
            groups_left -= 1
            samples.put("kafka_consumergroup_members", _members(home, group_id), group_id)
            partitions_left = await _lags(broker, home, group_id, partitions_left, slices, samples)
    for (kind, state), count in counts.items():
        samples.put("kwire_groups", count, kind, state)
    samples.put("kwire_metrics_left_out", left_out, "groups")


def _members(home: LoadedCoordinator, group_id: str) -> int:
    return len(getattr(home.coordinator.groups.get(group_id), "members", ()))


async def _lags(
    broker: Broker,
    home: LoadedCoordinator,
    group_id: str,
    left: int,
    slices: Slices,
    samples: Samples,
) -> int:
    """Add the lags of a group; returns how many partitions of other groups may follow."""
    sums: Counter[str] = Counter()
    for topic, index, committed in home.coordinator.offsets.of(group_id).items():
        await slices.give_way()
        partition = broker.partition_if_served(topic, index)
        if partition is None:
            continue
        lag = max(0, partition.high_watermark - committed.offset)
        sums[topic] += lag
        if left:
            left -= 1
            labels = (group_id, topic, str(index))
            samples.put("kafka_consumergroup_current_offset", committed.offset, *labels)
            samples.put("kafka_consumergroup_lag", lag, *labels)
    for topic, lag in sums.items():
        samples.put("kafka_consumergroup_lag_sum", lag, group_id, topic)
    return left


async def gather_transactions(broker: Broker, slices: Slices, samples: Samples) -> None:
    """Add the samples of transactions; none before a client has used one."""
    if "transactions" not in vars(broker):
        return
    states: Counter[str] = Counter()
    oldest_ms = now_ms = broker.now_ms()
    for home in broker.transactions.loaded():
        for known in list(home.coordinator.transactions.values()):
            await slices.give_way()
            states[known.state.title] += 1
            if known.state.title == "Ongoing":
                oldest_ms = min(oldest_ms, known.start_ms)
    for state, count in states.items():
        samples.put("kwire_transactional_ids", count, state)
    samples.put("kwire_transaction_oldest_open_seconds", (now_ms - oldest_ms) / 1000)
