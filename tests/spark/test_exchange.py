"""Changes of several files at once: what readers see meanwhile, and after a kill at any point."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PosixPath

import pytest

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.file_names import FileName
from kwire.spark.settings import SinkSettings
from kwire.spark.sinks.claims import Claims
from kwire.spark.storage import LocalStorage
from kwire.spark.upkeep import Cutoff, exchange
from kwire.spark.upkeep.exchange import CannotExchange, Changed, change, table_lock
from kwire.spark.upkeep.files import Known, Upkeep, expired, merges

WHERE = "topic=t/partition=0"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The directory of a table."""
    found = tmp_path / "table"
    found.mkdir()
    return found


def name_of(first: int, end: int, part: int | None = None) -> str:
    """A file's name."""
    return FileName("t", 0, first, end, part, "json").name


def write(top: Path, first: int, end: int, part: int | None = None) -> Path:
    """A file with a line for each offset of a range."""
    path = top / WHERE / name_of(first, end, part)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{one}\n" for one in range(first, end)))
    return path


def read(top: Path) -> list[int]:
    """Every row, as a plain reader of the directory finds them; FileNotFoundError for a change."""
    names = sorted(path for path in (top / WHERE).iterdir() if path.name[0] not in "_.")
    return [int(line) for path in names for line in path.read_text().split()]


def upkeep(top: Path) -> Upkeep:
    """The upkeep of the directory."""
    return Upkeep(SinkSettings("json", str(top)))


def test_a_reader_beside_compaction_sees_each_record_once(top: Path) -> None:
    """A reader that never stops, and a stream that adds files under the lock."""
    for first in range(0, 100, 10):
        write(top, first, first + 10)
    is_over = threading.Event()
    wrong: list[Counter[int]] = []
    reads = 0

    def keep_reading() -> None:
        nonlocal reads
        known = 100
        while not is_over.is_set():
            try:
                found = read(top)
            except FileNotFoundError:
                continue  # the directory was exchanged: a clear error, and the reader tries again
            if found != list(range(len(found))) or len(found) < known:
                wrong.append(Counter(found))
            known = len(found)
            reads += 1

    reader = threading.Thread(target=keep_reading)
    reader.start()
    try:
        for first in range(100, 300, 10):
            with table_lock(top):
                aside = top / f"_{first}"
                aside.write_text("".join(f"{one}\n" for one in range(first, first + 10)))
                aside.rename(top / WHERE / name_of(first, first + 10))
            upkeep(top).compact(None, 200)
    finally:
        is_over.set()
        reader.join()
    assert not wrong
    assert reads > 0
    assert read(top) == list(range(300))
    assert len(list((top / WHERE).iterdir())) < 30


def test_a_glob_over_everything_finds_each_record_once(top: Path) -> None:
    """Also readers that don't pass over names with an underscore, while a command works."""
    storage = LocalStorage(top)
    for number, first in enumerate(range(0, 50, 10)):
        write(top, first, first + 10)
        Claims(storage).add(Batch("p", "q", number, (OffsetRange("t", 0, first, first + 10),)))
    with exchange.upkeep(top) as aside:
        write(top, 50, 60).rename(aside / name_of(50, 60))
        assert len(list(top.rglob("*.json"))) == 5
    upkeep(top).compact(None, 10**6)
    names = [path.name for path in sorted(top.rglob("*.json"))]
    assert names == [name_of(0, 40), name_of(40, 50)]


KILLS = ("link", "rename", "_exchange", "_link_late")


@pytest.mark.parametrize("where", KILLS)
@pytest.mark.parametrize("is_before", [True, False])
def test_a_kill_at_any_point_leaves_each_record_once(
    where: str, is_before: bool, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left aside is a copy; the next run finishes."""
    for first in range(0, 50, 10):
        write(top, first, first + 10)

    def killed(call: Callable[..., object]) -> Callable[..., object]:
        def instead(*args: object, **named: object) -> object:
            if not is_before:
                call(*args, **named)
            raise KeyboardInterrupt

        return instead

    with monkeypatch.context() as patch:
        owner = {"rename": Path, "link": exchange.os}
        at = owner.get(where, exchange)
        patch.setattr(at, where, killed(getattr(at, where)))
        with pytest.raises(KeyboardInterrupt):
            upkeep(top).compact(None, 10**6)
    assert read(top) == list(range(50))
    upkeep(top).compact(None, 10**6)
    assert read(top) == list(range(50))
    names = sorted(path.name for path in (top / WHERE).iterdir())
    assert names == [name_of(0, 40), name_of(40, 50)]
    monkeypatch.setattr(exchange, "LISTING_S", 0)
    upkeep(top).compact(None, 10**6)
    assert not list(top.parent.rglob(".kwire-*/**/*.json"))


def test_a_reader_in_the_middle_of_a_list_sees_the_whole_of_it(top: Path) -> None:
    """It has opened the directory: what it goes on to list is the old one, complete."""
    for first in range(0, 30, 10):
        write(top, first, first + 10)
    opened = os.open(top / WHERE, os.O_RDONLY)
    upkeep(top).compact(None, 10**6)
    assert sorted(os.listdir(opened)) == [name_of(one, one + 10) for one in (0, 10, 20)]
    os.close(opened)


def test_a_file_added_in_spite_of_the_lock_stays(top: Path) -> None:
    """A task that outlives its batch renames its file just before the exchange."""

    class Moved(PosixPath):
        """What is added: it is moved to its place after the directory was listed."""

        def rename(self, target: Path) -> Path:
            write(top, 20, 30)
            return super().rename(target)

    write(top, 0, 10)
    write(top, 10, 20)
    new = top / "new"
    new.write_text("".join(f"{one}\n" for one in range(20)))
    with exchange.upkeep(top):
        change(top, WHERE, {name_of(0, 10), name_of(10, 20)}, {name_of(0, 20): Moved(new)})
    assert read(top) == list(range(30))


def test_two_changes_of_the_same_files(top: Path) -> None:
    """The second one notices, and changes nothing."""
    write(top, 0, 10)
    new = top / "new"
    new.write_text("")
    with pytest.raises(Changed, match="is gone"):
        change(top, WHERE, {name_of(10, 20)}, {name_of(0, 20): new})
    with pytest.raises(Changed, match="is there already"):
        change(top, WHERE, set(), {name_of(0, 10): new})
    assert read(top) == list(range(10))


def test_a_file_system_without_exchange_says_so(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and the way out is named."""
    write(top, 0, 10)
    write(top, 10, 20)
    write(top, 20, 30)
    monkeypatch.setattr(exchange.ctypes, "CDLL", lambda *_, **__: object())
    with pytest.raises(CannotExchange, match="kind delta or iceberg"):
        upkeep(top).compact(None, 10**6)
    assert read(top) == list(range(30))


def known(first: int, end: int, size_bytes: int = 10, part: int | None = None, time: float = 0.0):
    """A file of a partition."""
    return Known(FileName("t", 0, first, end, part), size_bytes, time)


def test_what_is_merged() -> None:
    """Neighbors below the target; not across gaps, not the newest range, parts together."""
    files = [known(0, 10), known(10, 20), known(25, 30), known(30, 35), known(35, 40)]
    assert merges(files, 100) == [files[0:2], files[2:4]]
    assert merges(files, 15) == []
    parts = [known(0, 10, part=0), known(0, 10, part=1), known(10, 20), known(20, 30)]
    assert merges(parts, 20) == [parts[0:2]]
    assert merges(parts, 30) == [parts[0:3]]
    assert merges([known(0, 10, 90), known(10, 20, 5), known(20, 30, 9), known(30, 31)], 20) == [
        [known(10, 20, 5), known(20, 30, 9)]
    ]
    assert merges([known(0, 10, part=0), known(0, 10, part=1)], 100) == []


def test_what_expires() -> None:
    """From the oldest on, up to the first that is too new; never the newest range."""
    files = [known(one * 10, one * 10 + 10, time=float(one)) for one in (1, 2, 9, 3, 4)]
    assert list(expired(files, Cutoff(before_ms=5000))) == files[:2]
    assert list(expired(files, Cutoff(before_ms=50_000))) == files[:4]
    by_offset = Cutoff(topic="t", partition=0, before_offset=35)
    assert list(expired(files[:2] + files[3:], by_offset)) == files[:2]
    assert list(expired(files, Cutoff(topic="t", partition=1, before_offset=99))) == []


def test_expire_deletes_whole_files(top: Path) -> None:
    """Rows after the offset stay, also those of a file that begins before it."""
    for first in range(0, 50, 10):
        write(top, first, first + 10)
    done = upkeep(top).expire(None, Cutoff(topic="t", partition=0, before_offset=25), 0)
    assert (done.files_before, done.files_after) == (5, 3)
    assert read(top) == list(range(20, 50))


def named(first: int, end: int, incarnation: int = 0) -> Known:
    """A file of 10 bytes."""
    return Known(FileName("t", 0, first, end, incarnation=incarnation), 10, first)


def test_files_of_topics_created_again_stay_apart() -> None:
    """They follow each other by incarnation, and their offsets don't continue each other."""
    files = [named(0, 5), named(5, 9), named(9, 12), named(0, 4, 1), named(4, 8, 1), named(8, 9, 1)]
    merged = [[str(one.name) for one in group] for group in merges(files, 100)]
    assert [len(one) for one in merged] == [3, 2]
    assert all("-i1" in one for one in merged[1])
    newest = [OffsetRange("t", 0, 4, 8, 1)]
    assert [len(one) for one in merges(files, 100, newest)] == [3]
    cutoff = Cutoff(topic="t", partition=0, before_offset=8, incarnation=1)
    assert [one.name.end for one in expired(files, cutoff)] == [4, 8]


def test_expire_takes_its_ranges_from_the_claims(top: Path) -> None:
    """Otherwise verify would call them gaps; the stream's next batch doesn't bring them back."""
    storage = LocalStorage(top)
    for number, first in enumerate(range(0, 40, 10)):
        write(top, first, first + 10)
        where = OffsetRange("t", 0, first, first + 10)
        Claims(storage).add(Batch("p", "q", number, (where,)))
    upkeep(top).expire(None, Cutoff(topic="t", partition=0, before_offset=20), 0)
    assert Claims(storage).ranges() == [OffsetRange("t", 0, 20, 40)]
    Claims(storage).add(Batch("p", "q", 4, (OffsetRange("t", 0, 40, 50),)))
    assert Claims(storage).ranges() == [OffsetRange("t", 0, 20, 50)]


def test_a_range_that_was_written_meanwhile_is_not_changed(top: Path) -> None:
    """A batch that runs again may have more files than before: their rows would be there twice."""
    write(top, 0, 10)
    part = top / WHERE / name_of(0, 10).replace(".json", "-1.json")
    part.write_text("1\n")
    with pytest.raises(Changed, match="was written meanwhile"):
        change(top, WHERE, {name_of(0, 10)}, {})


class UpkeepWithoutSpark(Upkeep):
    """Has a row -1 for each offset of a range that is replayed."""

    def _write_range(self, rows: object, one: OffsetRange, aside: Path) -> Path:
        aside.mkdir()
        path = aside / "part-00000-x.c000.json"
        path.write_text("-1\n" * (one.end - one.first))
        return path


def replays(top: Path, ranges: list[OffsetRange]) -> None:
    """Replay ranges, whose new rows are all -1."""
    settings = SinkSettings("json", str(top))
    UpkeepWithoutSpark(settings).replay(None, None, ranges)  # type: ignore[arg-type]


def test_a_replay_of_partitions_that_begin_at_the_same_offset(top: Path) -> None:
    """What is written aside for one of them isn't in the way of the other."""
    ranges = [OffsetRange("t", one, 0, 3) for one in (0, 1)]
    for one in ranges:
        path = top / str(FileName("t", one.partition, 0, 3, extension="json"))
        path.parent.mkdir(parents=True)
        path.write_text("0\n1\n2\n")
    replays(top, ranges)
    assert [path.read_text() for path in top.rglob("t*/*/*.json")] == ["-1\n-1\n-1\n"] * 2


def test_a_replay_whose_files_were_merged_meanwhile(top: Path) -> None:
    """Nothing is written: the merged file would stay, and its records would be there twice."""
    for first in (0, 10, 20):
        write(top, first, first + 10)
    planned = upkeep(top).ranges(None, OffsetRange("t", 0, 0, 10))  # type: ignore[arg-type]
    upkeep(top).compact(None, 10**6)
    with pytest.raises(Changed, match="offsets 0-9 were merged or deleted meanwhile"):
        replays(top, planned)
    assert read(top) == list(range(30))
