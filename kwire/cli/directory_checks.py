"""The checks of ``kwire doctor`` for a data directory. They change nothing."""

import os
import re
import shutil
from pathlib import Path

from kwire.cli.finding import ACT, GOOD, NOTE, Finding
from kwire.log.data_directory import ROOM_TO_START_BYTES
from kwire.log.directory_health import LOCK_FILE
from kwire.log.disk import Disk
from kwire.log.log_repair import find_damage
from kwire.log.meta_properties import read_meta_properties
from kwire.log.read_only_disk import ReadOnlyDisk
from kwire.log.stop_marks import CLEAN_SHUTDOWN_FILE
from kwire.log.stray_partitions import find_strays

LITTLE_ROOM_BYTES = 1 << 30
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_CONTROLLERS_TOPIC = "__cluster_metadata"
_UNFINISHED = ("-delete", "-future")
_SHOWN = 5


def partition_directories(directory: Path) -> list[Path]:
    """The directories of partitions, sorted."""
    found = []
    for path in sorted(directory.iterdir()):
        match = _PARTITION.fullmatch(path.name)
        if match and match["topic"] != _CONTROLLERS_TOPIC and path.is_dir():
            found.append(path)
    return found


def is_in_use(directory: Path) -> bool:
    """Whether a broker has locked the directory."""
    lock = directory / LOCK_FILE
    if not lock.exists():
        return False
    disk = Disk()
    try:
        disk.close(disk.lock(lock))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_directory(directory: Path, *, deep: bool) -> list[Finding]:
    """All findings about one data directory."""
    if not directory.exists():
        return [Finding(GOOD, f"{directory}: does not exist yet; a broker creates it")]
    unusable = _check_access(directory)
    if unusable is not None:
        return [unusable]
    in_use = is_in_use(directory)
    partitions = partition_directories(directory)
    findings = [
        _check_identity(directory),
        _check_shutdown(directory, partitions, in_use=in_use),
        _check_room(directory),
        *_check_left_overs(directory),
        _check_segments(partitions, in_use=in_use, deep=deep),
    ]
    return [one for one in findings if one is not None]


def _check_access(directory: Path) -> Finding | None:
    why = "a broker cannot use the directory, and does not start if it has no other"
    if not directory.is_dir():
        remedy = "name another one with --data-dir"
        return Finding(ACT, f"{directory}: is not a directory", why, remedy)
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"run as its owner, or chown -R it to user {os.getuid()}"
        return Finding(ACT, f"{directory}: this user may not read and write it", why, remedy)
    return None


def _check_identity(directory: Path) -> Finding:
    try:
        meta = read_meta_properties(directory, ReadOnlyDisk())
    except (OSError, ValueError) as error:
        why = "the broker cannot tell whose directory it is, and takes it offline"
        remedy = "restore meta.properties from a backup, or from another directory of the broker"
        return Finding(ACT, f"{directory}: meta.properties: {error}", why, remedy)
    if meta is None:
        return Finding(GOOD, f"{directory}: new, without meta.properties")
    text = f"node {meta.node_id} of cluster {meta.cluster_id}"
    return Finding(GOOD, f"{directory}: belongs to {text}")


def _check_shutdown(directory: Path, partitions: list[Path], *, in_use: bool) -> Finding:
    if in_use:
        return Finding(GOOD, f"{directory}: in use by a running broker")
    if not partitions or (directory / CLEAN_SHUTDOWN_FILE).exists():
        return Finding(GOOD, f"{directory}: closed cleanly, {len(partitions):,} partitions")
    return Finding(
        NOTE,
        f"{directory}: not closed cleanly",
        "the broker was killed, or the machine failed: the next start reads what may not have "
        "been written completely, and cuts off what wasn't",
        "nothing, if that was expected; docs/DURABILITY.md says what a crash keeps",
    )


def _check_room(directory: Path) -> Finding:
    usage = shutil.disk_usage(directory)
    files = os.statvfs(directory)
    what = f"{directory}: {usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB"
    remedy = "make room, or shorten retention.ms with kwire configs set"
    if usage.free < ROOM_TO_START_BYTES:
        return Finding(ACT, what, "producers are refused, and a broker may not start", remedy)
    if files.f_files and not files.f_favail:
        return Finding(ACT, f"{directory}: no inodes are left", "no file can be created", remedy)
    if usage.free < min(LITTLE_ROOM_BYTES, usage.total // 20):
        return Finding(NOTE, what, "producers are refused when the disk is full", remedy)
    return Finding(GOOD, what)


def _check_left_overs(directory: Path) -> list[Finding]:
    findings = []
    strays = find_strays(directory, ReadOnlyDisk())
    if strays:
        size = sum(stray.size_bytes for stray in strays) / 1e6
        findings.append(
            Finding(
                NOTE,
                f"{directory}: {len(strays)} strays, {size:.1f} MB",
                "their topics are gone; nothing reads them",
                f"kwire strays list --data-dir {directory}, then kwire strays remove",
            )
        )
    unfinished = [path.name for path in directory.iterdir() if path.name.endswith(_UNFINISHED)]
    if unfinished:
        findings.append(
            Finding(
                NOTE,
                f"{directory}: unfinished deletions or moves: {_some(unfinished)}",
                "a broker finishes deletions at its next start, and leaves moves alone",
                "nothing",
            )
        )
    return findings


def _check_segments(partitions: list[Path], *, in_use: bool, deep: bool) -> Finding:
    """Unreadable batches. An incomplete end of a log after a crash is no damage."""
    damaged: dict[str, str] = {}
    looked_at = 0
    for partition in partitions:
        segments = sorted(partition.glob("*.log"))
        for segment in segments if deep else segments[-1:]:
            is_last = segment == segments[-1]
            if is_last and in_use:
                continue  # a broker is writing its end
            looked_at += 1
            try:
                damages = find_damage(segment)
            except (OSError, ValueError) as error:
                damaged.setdefault(str(partition), f"{segment.name}: {error}")
                continue
            # Damage at the end of the last segment is what a crash leaves; a start cuts it off.
            real = [one for one in damages if one.next_offset is not None or not is_last]
            if real:
                damaged.setdefault(str(partition), str(real[0]))
    where = "all segments" if deep else "the last segment of each partition"
    if in_use and not looked_at:
        return Finding(GOOD, "segments: not read, because a broker writes to them")
    if not damaged:
        return Finding(GOOD, f"segments: {looked_at:,} read ({where}), no damage")
    first = next(iter(damaged))
    return Finding(
        ACT,
        f"segments: {len(damaged)} damaged: {_some(list(damaged.values()))}",
        "consumers stop at the damage, and a partition of a coordinator cannot be loaded",
        f"stop the broker, copy the directory, then kwire mend-log {first}",
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
