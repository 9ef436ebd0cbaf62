"""Choosing the kind of dump by a file's name."""

from collections.abc import Iterator
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.dump.index_dump import dump_offset_index, dump_time_index, dump_transaction_index
from kwire.log.dump.lines import DumpError, Line, Options, Problems
from kwire.log.dump.log_files import dump_log
from kwire.log.dump.small_files import (
    CHECKPOINTS,
    dump_checkpoint,
    dump_properties,
    dump_snapshot,
)
from kwire.log.read_only_disk import ReadOnlyDisk

_PROPERTIES = ("partition.metadata", "meta.properties")
_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


def is_dumpable(path: Path) -> bool:
    """Whether the name is that of a file in a log."""
    return path.name in (*CHECKPOINTS, *_PROPERTIES) or path.name.endswith(_SUFFIXES)


def dump_file(
    path: Path, options: Options, problems: Problems, disk: Disk | None = None
) -> Iterator[Line]:
    """The lines of one file; DumpError if it can't be dumped."""
    disk = disk or ReadOnlyDisk()
    yield Line(f"Dumping {path}", {"type": "file"})
    try:
        yield from _lines(path, options, problems, disk)
    except FileNotFoundError as error:
        raise DumpError(f"{error.filename or path} does not exist") from error
    except OSError as error:
        raise DumpError(f"cannot read {path}: {error.strerror}") from error


def _lines(path: Path, options: Options, problems: Problems, disk: Disk) -> Iterator[Line]:
    if path.name in CHECKPOINTS:
        return dump_checkpoint(path, disk)
    if path.name in _PROPERTIES:
        return dump_properties(path, disk)
    match path.suffix:
        case ".log" | ".checkpoint":
            return dump_log(path, options, disk, problems)
        case ".index":
            return dump_offset_index(path, options, disk, problems)
        case ".timeindex":
            return dump_time_index(path, options, disk, problems)
        case ".txnindex":
            return dump_transaction_index(path, disk, problems)
        case ".snapshot":
            return dump_snapshot(path, disk)
    disk.size_of(path)  # raises FileNotFoundError, whose message suits a missing file better
    raise DumpError(f"{path} is not a file of a log")
