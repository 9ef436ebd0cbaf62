"""Moves the replicas of a partition to other brokers: (partition, wanted replicas) → partition;
pure.

Rules:

- ``adding`` are the brokers that get a replica, ``removing`` the brokers that lose theirs.
  ``replicas`` has the brokers of both, the wanted ones first. The move is complete when the added
  replicas are in the ISR (``partition_change``). A move that adds no replica is complete at once.
- During a move, a further move or a cancellation starts from the replicas before the first move. So
  brokers that the first move has added and that aren't wanted any more are dropped.
- A change that would leave no replica in the ISR is not made.

Source: ReplicationControlManager.changePartitionReassignment, PartitionReassignmentRevert of Kafka;
KIP-455, KIP-860.
"""

from collections.abc import Container, Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.controller import check_level
from kwire.metadata.cordons import is_cordoned, manual_refusal
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.leader_election import ElectionRules
from kwire.metadata.partition_change import changed_partition


def is_reassigning(partition: PartitionImage) -> bool:
    """Whether a move is under way."""
    return bool(partition.adding or partition.removing)


def reassigned(
    image: MetadataImage,
    before: PartitionImage,
    replicas: Sequence[int],
    rules: ElectionRules,
    *,
    may_change_factor: bool = True,
) -> PartitionImage | None:
    """The partition as its move to these replicas begins; None if nothing changes.

    Raises KafkaError: INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR.
    """
    _check_replicas(image, replicas, before.replicas)
    factor = len(before.replicas) - len(before.removing)
    if not may_change_factor and factor != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(replicas)}",
        )
    original = _without(before.replicas, before.adding)
    removing = tuple(sorted(_without(original, replicas)))
    adding = tuple(sorted(_without(replicas, original)))
    every = (*replicas, *removing)
    assert set(adding).isdisjoint(removing), (adding, removing)
    assert len(set(every)) == len(every), every
    check_level(image, len(every))
    wanted = _restricted(before, every)._replace(adding=adding, removing=removing)
    return changed_partition(before, wanted, rules)


def cancelled(before: PartitionImage, rules: ElectionRules) -> PartitionImage | None:
    """The partition without its move; KafkaError (NO_REASSIGNMENT_IN_PROGRESS)."""
    if not is_reassigning(before):
        raise KafkaError(
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        )
    original = _without(before.replicas, before.adding)
    wanted = _restricted(before, original)._replace(adding=(), removing=())
    return changed_partition(before, wanted, rules)


def _restricted(before: PartitionImage, replicas: tuple[int, ...]) -> PartitionImage:
    """The partition with these replicas; KafkaError (INVALID_REPLICA_ASSIGNMENT)."""
    isr = tuple(node for node in before.isr if node in replicas)
    elr = tuple(node for node in before.elr if node in replicas)
    had_records = bool(before.isr or before.elr)
    if had_records and not (isr or elr):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "None of the replicas that would stay is in sync: an unclean leader election would be "
            "required.",
        )
    last = tuple(node for node in before.last_known_elr if node in replicas)
    return before._replace(replicas=replicas, isr=isr, elr=elr, last_known_elr=last)


def _check_replicas(image: MetadataImage, replicas: Sequence[int], present: Sequence[int]) -> None:
    """Raise KafkaError (INVALID_REPLICA_ASSIGNMENT) for an invalid list of replicas.

    Those that are ``present`` may stay where nothing new may come.
    """
    unknown = [node for node in replicas if node not in image.brokers]
    if not replicas:
        problem = "The manual partition assignment includes an empty replica list."
    elif len(set(replicas)) != len(replicas):
        problem = f"The manual partition assignment names a broker twice: {list(replicas)}."
    elif unknown:
        problem = f"The manual partition assignment includes broker {unknown[0]}, but no such "
        problem += "broker is registered."
    elif cordoned := [
        node for node in replicas if node not in present and is_cordoned(image, image.brokers[node])
    ]:
        problem = manual_refusal(cordoned[0])
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def _without(nodes: Sequence[int], lost: Container[int]) -> tuple[int, ...]:
    return tuple(node for node in nodes if node not in lost)
