"""The settings of a share group on the side of the partition: the group's own, or the broker's."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kwire.broker.share_dead_letters import dead_letter_topic
from kwire.config.settings import GROUP, Value, settings
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.share.partition import ShareLimits

LATEST, EARLIEST = "latest", "earliest"
_BY_DURATION = "by_duration:"
_PARTS = re.compile(r"P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


class ShareSettings(NamedTuple):
    """What a share group's partitions go by."""

    limits: ShareLimits
    reads_committed: bool
    renews: bool
    offset_reset: str
    reset_duration_ms: int


def share_settings(
    values: Mapping[str, Value], image: MetadataImage, group_id: str
) -> ShareSettings:
    """The settings of a group; the broker's bounds hold for its own ones, too."""
    own, known = image.config(ConfigResourceType.GROUP, group_id), settings(GROUP)

    def value(name: str) -> Value:
        text = own.get(name) or known[name].default
        return None if text is None else known[name].parse(text)

    def bounded(name: str, least: str, most: str) -> int:
        of_group = name.removeprefix("group.")
        found = known[of_group].parse(own[of_group]) if of_group in own else values[name]
        numbers = found, values[least], values[most]
        number, low, high = (one for one in numbers if isinstance(one, int))
        return min(max(number, low), high)

    reset, duration_ms = str(value("share.auto.offset.reset")), 0
    if reset.startswith(_BY_DURATION):
        reset, duration_ms = _BY_DURATION, duration_of(reset.removeprefix(_BY_DURATION))
    limits = ShareLimits(
        has_dead_letters=bool(dead_letter_topic(image, group_id)),
        lock_ms=bounded(
            "group.share.record.lock.duration.ms",
            "group.share.min.record.lock.duration.ms",
            "group.share.max.record.lock.duration.ms",
        ),
        delivery_limit=bounded(
            "group.share.delivery.count.limit",
            "group.share.min.delivery.count.limit",
            "group.share.max.delivery.count.limit",
        ),
        max_locks=bounded(
            "group.share.partition.max.record.locks",
            "group.share.min.partition.max.record.locks",
            "group.share.max.partition.max.record.locks",
        ),
    )
    return ShareSettings(
        limits,
        value("share.isolation.level") == "read_committed",
        bool(value("share.renew.acknowledge.enable")),
        reset,
        duration_ms,
    )


def duration_of(text: str) -> int:
    """The milliseconds of an ISO 8601 duration such as ``P1DT2H``."""
    found = _PARTS.fullmatch(text)
    parts = found.groups(default="0") if found else ("0",) * 4
    return int(sum(float(part) * unit for part, unit in zip(parts, _UNITS_MS, strict=True)))
