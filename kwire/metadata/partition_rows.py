"""The partitions of stored changes: each is a list of its fields.

Rule: the fields after the partition epoch are left out if all have their defaults.
"""

from collections.abc import Iterable
from typing import Any

from kwire.metadata.image import PartitionImage

SHORT_ROW = 5
"""So many fields has the row of a partition whose other fields have their defaults."""

_DEFAULTS = PartitionImage(-1, 0, (), ())[SHORT_ROW:]


def partition_row(partition: PartitionImage) -> tuple[Any, ...]:
    """A partition's fields as they are stored."""
    return partition[:SHORT_ROW] if partition[SHORT_ROW:] == _DEFAULTS else partition


def partitions_of(rows: Iterable[Any]) -> tuple[PartitionImage, ...]:
    """The partitions that such fields stand for."""
    return tuple(map(_partition, rows))


def _partition(row: list[Any]) -> PartitionImage:
    leader, leader_epoch, replicas, isr, partition_epoch, *others = row
    short = PartitionImage(leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch)
    if not others:
        return short
    adding, removing, elr, last_known_elr, is_recovering = others
    return short._replace(
        adding=tuple(adding),
        removing=tuple(removing),
        elr=tuple(elr),
        last_known_elr=tuple(last_known_elr),
        is_recovering=is_recovering,
    )
