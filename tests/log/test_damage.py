"""Files damaged on purpose: a clear message or right records, and the other logs don't suffer."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import KafkaError
from kwire.log.data_directory import LogDirectoryError
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from tests.log.conftest import NOW_MS, LogTools

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=120)
WRITTEN = [(number, b"%d" % number + b"v" * 30) for number in range(40)]
KINDS = st.sampled_from(["flip", "cut", "append", "remove", "zeros"])
# What identifies a directory: where it can't be read, the start says so and stops.
IDENTITY = {"meta.properties", "partition.metadata"}


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """Directories with two logs, one closed cleanly and one not, with transactions in them."""
    found = {}
    for clean in (False, True):
        root = tmp_path_factory.mktemp("intact") / "data"
        tools = LogTools(root)
        manager = LogManager.open([root], node_id=1, now_ms=NOW_MS, disk=Disk())
        for topic in "ab":
            log = manager.get_or_create(topic, 0, topic.encode() * 16, CONFIG, NOW_MS)
            for number, value in WRITTEN:
                if number % 10 == 9:
                    tools.append_marker(log, tools.marker(7, 0, commit=number % 20 == 9))
                    continue
                sequence = number - number // 10
                tools.append(log, value, producer=(7, 0, sequence), transactional=True)
        assert manager.checkpoint(dict)
        manager.close(NOW_MS, clean=clean)
        found[clean] = root
    return found


def damage(path: Path, kind: str, position: int) -> None:
    """Do something to a file."""
    if kind == "remove":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    at = position % (len(data) + 1)
    if kind == "cut":
        del data[at:]
    elif kind == "append":
        data += bytes([position % 256]) * (position % 99 + 1)
    elif kind == "zeros":
        data[at:] = bytes(len(data) - at)
    elif at < len(data):
        data[at] ^= 1 << (position % 8)
    path.write_bytes(data)


def started(root: Path) -> tuple[LogManager | None, str]:
    """A manager, or None and what it says."""
    try:
        return LogManager.open([root], node_id=1, now_ms=NOW_MS, disk=Disk()), ""
    except LogDirectoryError as error:
        return None, str(error)


def read(tools: LogTools, log) -> list[tuple[int, bytes | None]] | None:
    """What consumers get, who check the checksums; None where they are told of an error."""
    try:
        return [(r.offset, r.value) for r in tools.records(log) if r.offset % 10 != 9]
    except KafkaError:
        return None


@pytest.mark.hypothesis
@given(clean=st.booleans(), kind=KINDS, place=st.integers(0, 1 << 20), data=st.data())
def test_damage_is_told_or_mended_and_stays_where_it_is(
    intact, tmp_path_factory, clean, kind, place, data
):
    """Any file of a directory flipped, cut, appended to, zeroed or removed."""
    root = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(intact[clean], root)
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != ".lock"]
    path = data.draw(st.sampled_from(files))
    damage(path, kind, place)
    wanted = [row for row in WRITTEN if row[0] % 10 != 9]
    manager, message = started(root)
    if manager is None:
        assert path.name in IDENTITY, path
        assert "\n" not in message
        return
    tools = LogTools(root)
    for topic in "ab":
        log = manager.logs[topic, 0]
        found = read(tools, log)
        if path.parent.name == f"{topic}-0" or path.parent == root:
            # A batch's offset isn't covered by its checksum; the rest of it is.
            assert found is None or {v for _, v in found} <= {v for _, v in wanted}
        else:
            assert found == wanted, path
        end = log.log_end_offset
        assert tools.append(log, b"more") == end
    manager.close(NOW_MS)
    shutil.rmtree(root.parent)
