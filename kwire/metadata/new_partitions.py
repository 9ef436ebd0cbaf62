"""The replicas of new partitions: placed by kwire or assigned by a client, in pieces; pure.

Rules:

- One request may create 10,000 partitions, which takes too long for one turn of the event loop. So
  the functions are ``Steps``: generators that yield before each piece. The caller decides what
  happens in between: a handler lets other requests have their turn, ``at_once`` does nothing.
- The replicas on active brokers are in sync, and the first of them leads.

Source: ReplicationControlManager of Kafka.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.placement import Placer, Replicas

_T = TypeVar("_T")

Steps: TypeAlias = Generator[int, None, _T]
"""Yields the number of replicas of its next piece, and returns the result."""

PARTITIONS_PER_STEP = 50


def at_once(steps: "Steps[_T]") -> _T:
    """The result of all steps, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result


def placed(
    image: MetadataImage,
    placer: Placer,
    count: int,
    replication_factor: int,
) -> "Steps[list[PartitionImage]]":
    """``count`` new partitions on brokers that kwire chooses; KafkaError if it finds none."""
    made: list[PartitionImage] = []
    width = min(max(replication_factor, 1), len(image.brokers) + 1)
    for piece in _ranges(count):
        yield len(piece) * width
        for _ in piece:
            replicas = placer.place(replication_factor)
            isr = _in_sync(image, replicas)
            if not isr:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"Unable to replicate the partition {len(replicas)} time(s): All brokers are "
                    "currently fenced or in controlled shutdown.",
                )
            made.append(PartitionImage(isr[0], 0, replicas, isr))
    return made


def assigned(
    image: MetadataImage, assignments: Mapping[int, Sequence[int]], first: int = 0
) -> "Steps[list[PartitionImage]]":
    """The partitions from ``first`` on, on the brokers that a client asks for.

    ``assignments`` has the node ids by partition. Raises KafkaError (INVALID_REPLICA_ASSIGNMENT).
    """
    if min(assignments) != first or max(assignments) != first + len(assignments) - 1:
        raise _refusal("Partitions should be a consecutive 0-based integer sequence.")
    factor = len(assignments[first])
    made: list[PartitionImage] = []
    for piece in _ranges(len(assignments)):
        yield len(piece) * min(factor, len(image.brokers) + 1)
        for index in range(first + piece.start, first + piece.stop):
            nodes = assignments[index]
            _check(image, index, nodes, factor)
            isr = _in_sync(image, nodes)
            if not isr:
                raise _refusal(
                    "All brokers specified in the manual partition assignment for partition "
                    f"{index} are fenced or in controlled shutdown."
                )
            made.append(PartitionImage(isr[0], 0, tuple(nodes), isr))
    return made


def _check(image: MetadataImage, index: int, nodes: Sequence[int], factor: int) -> None:
    """Raise KafkaError unless a partition can be on these brokers.

    However many are named, it looks at no more than there are brokers, and one.
    """
    if not nodes:
        raise _refusal(f"Partition {index} has no replicas.")
    if len(nodes) != factor:
        raise _refusal("All partitions should have the same number of replicas.")
    seen = set()
    for node in nodes:
        if node not in image.brokers:
            raise _refusal(f"Broker {node} in partition {index} is not registered.")
        if node in seen:
            raise _refusal(f"Partition {index} names broker {node} more than once.")
        seen.add(node)


def _in_sync(image: MetadataImage, replicas: Sequence[int]) -> Replicas:
    return tuple(node for node in replicas if image.is_active(node))


def _ranges(count: int) -> Iterator[range]:
    for start in range(0, count, PARTITIONS_PER_STEP):
        yield range(start, min(start + PARTITIONS_PER_STEP, count))


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
