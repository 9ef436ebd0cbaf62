"""``kwire doctor``: what it finds, what it says, and that it changes nothing."""

import json
import os
import socket
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.cli.directory_checks import check_directory
from kwire.cli.finding import ACT, GOOD, NOTE
from kwire.cli.machine_checks import check_clock, check_descriptors, check_ports
from kwire.cli.settings_checks import check_settings
from kwire.client.cluster import open_cluster
from kwire.client.leaders import TopicPartition
from kwire.client.producer import produce
from kwire.client.topics import create_topics
from kwire.record.records import BatchBuilder
from tests.support.in_process import running_server
from tests.support.ports import free_port


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """The data directory of a broker that has stopped cleanly, with topic t of one partition."""
    directory = tmp_path / "data"
    async with (
        running_server(directory) as server,
        open_cluster([(server.host, server.port)]) as cluster,
    ):
        await create_topics(cluster, ["t"], partitions=1)
        for _ in range(3):
            builder = BatchBuilder()
            builder.add(0, None, b"x" * 100)
            await produce(cluster, {TopicPartition("t", 0): bytes(builder.build())})
    return directory


def levels(findings) -> list[str]:
    """How serious each one is, without what is good."""
    return [one.level for one in findings if one.level != GOOD]


def snapshot(directory: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of every file."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


async def test_a_healthy_directory_needs_nothing_and_is_not_changed(data_dir: Path, capsys):
    """Exit code 0, and a last line that says so."""
    before = snapshot(data_dir)
    config = data_dir.parent / "server.properties"
    config.write_text(f"listeners=PLAINTEXT://127.0.0.1:{free_port()}\n", encoding="utf-8")
    assert main(["doctor", "--data-dir", str(data_dir), "--config", str(config), "--deep"]) == 0
    said = capsys.readouterr().out
    assert "closed cleanly, 1 partitions" in said
    assert said.endswith("nothing has to be done\n")
    assert snapshot(data_dir) == before


async def test_a_running_broker_is_seen(tmp_path: Path, capsys):
    """Its port is in use, and that is right."""
    async with running_server(tmp_path / "data") as server:
        config = tmp_path / "server.properties"
        address = f"{server.host}:{server.port}"
        config.write_text(f"listeners=PLAINTEXT://{address}\n", encoding="utf-8")
        given = ["--data-dir", str(tmp_path / "data"), "--config", str(config)]
        assert main(["doctor", *given, "--json"]) == 0
    found = [one["what"] for one in json.loads(capsys.readouterr().out)]
    assert f"{tmp_path / 'data'}: in use by a running broker" in found
    assert f"port: {address} is in use, and a broker is running" in found


async def test_an_unclean_shutdown_is_noted(data_dir: Path):
    """With what the next start does; a torn end is no damage."""
    (data_dir / ".kafka_cleanshutdown").unlink()
    [segment] = (data_dir / "t-0").glob("*.log")
    os.truncate(segment, segment.stat().st_size - 5)
    findings = check_directory(data_dir, deep=True)
    assert levels(findings) == [NOTE]
    [note] = [one for one in findings if one.level == NOTE]
    assert "not closed cleanly" in note.what


async def test_damage_within_a_segment_has_to_be_mended(data_dir: Path):
    """The command that does it is named."""
    [segment] = (data_dir / "t-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    findings = check_directory(data_dir, deep=False)
    [act] = [one for one in findings if one.level == ACT]
    assert "segments: 1 damaged" in act.what
    assert f"kwire mend-log {data_dir / 't-0'}" in act.remedy


async def test_left_overs_are_noted(data_dir: Path):
    """Strays with their size, unfinished deletions by name."""
    (data_dir / f"gone-0.{'a' * 32}-stray").mkdir()
    (data_dir / f"old-0.{'b' * 32}-delete").mkdir()
    findings = check_directory(data_dir, deep=False)
    assert levels(findings) == [NOTE, NOTE]
    said = " ".join(one.what for one in findings)
    assert "1 strays" in said
    assert f"old-0.{'b' * 32}-delete" in said


def test_directories_that_cannot_be_used(tmp_path: Path):
    """A file, and a meta.properties that is none; a missing directory is fine."""
    assert levels(check_directory(tmp_path / "new", deep=False)) == []
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    assert levels(check_directory(path, deep=False)) == [ACT]
    (tmp_path / "meta.properties").write_text("version=7\n", encoding="utf-8")
    assert ACT in levels(check_directory(tmp_path, deep=False))


def test_the_clock(tmp_path: Path):
    """Files of the future, and a year before kwire was there."""
    (tmp_path / "t-0").mkdir()
    segment = tmp_path / "t-0" / "0.log"
    segment.write_text("", encoding="utf-8")
    now_s = segment.stat().st_mtime
    assert check_clock([tmp_path], now_s).level == GOOD
    behind = check_clock([tmp_path], now_s - 3600)
    assert (behind.level, "is 3,600 s newer" in behind.what) == (ACT, True)
    assert check_clock([], 1000).level == ACT


def test_descriptors(monkeypatch):
    """Few for many partitions is a note, fewer than connections need is worse."""
    import resource

    for hard, partitions, level in (
        (100_000, 10, GOOD),
        (1024, 1000, NOTE),
        (256, 1, ACT),
        (resource.RLIM_INFINITY, 10**6, GOOD),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, hard=hard: (100, hard))
        assert check_descriptors(partitions).level == level


def test_a_port_in_use_has_to_be_freed():
    """Unless the broker itself uses it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
        [free, used] = check_ports([("127.0.0.1", free_port()), address], is_running=False)
        assert (free.level, used.level) == (GOOD, ACT)
        assert "address already in use" in used.what
        assert levels(check_ports([address], is_running=True)) == []


@pytest.mark.parametrize(
    ("content", "level", "said"),
    [
        ("num.partitions=3\n", GOOD, "1 settings, none without effect"),
        ("num.partitons=3\n", NOTE, "line 1: setting num.partitons is unknown and ignored; did"),
        ("ssl.keystore.location=x\n", NOTE, "protected by these settings: ssl.keystore.location=x"),
        ("a=1\nnum.partitions=no\n", ACT, "line 2: Invalid value no for"),
    ],
)
def test_settings(tmp_path: Path, content: str, level: str, said: str):
    """What is wrong and what does nothing, with the line."""
    path = tmp_path / "server.properties"
    path.write_text(content, encoding="utf-8")
    config, findings = check_settings(path)
    assert (config is None) == (level == ACT)
    assert level in {one.level for one in findings}
    assert any(said in one.what for one in findings)


def test_something_to_do_is_exit_code_1(tmp_path: Path, capsys):
    """With why and what."""
    assert main(["doctor", "--data-dir", str(tmp_path), "--config", "/nowhere"]) == 1
    said = capsys.readouterr().out
    assert "ACT   /nowhere: No such file or directory" in said
    assert "      do:  correct /nowhere" in said
    assert said.endswith("1 thing to do\n")
