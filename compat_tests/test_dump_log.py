"""Kafka's DumpLogSegments on what kwire wrote, and ``kwire dump-log`` beside it, line by line.

The directory is that of a kwire with the whole load of ``exchange``, stopped cleanly.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests import exchange
from compat_tests.java_tools import TOOL_TIMEOUT_S, finished_tool
from kwire.coordinator.transaction.state import TransactionState
from kwire.testing.process import BrokerProcess

DUMP = "org.apache.kafka.tools.DumpLogSegments"
JSON = re.compile(r"(?<=: )\{.*?\}(?= payload: |$)")
STATUS = re.compile(r'("transactionStatus":)(\d+)')
SHOWN_BY_BOTH = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
# Kafka's tool takes a segment that doesn't begin at offset 0 for one with a gap before it.
BEGINNING = re.compile(r"  -1 is followed by \d+")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What kwire wrote."""
    path = tmp_path_factory.mktemp("kwire")
    with BrokerProcess(path, exchange.SETTINGS) as kwire:
        exchange.create_all_topics(kwire.bootstrap)
        exchange.write(kwire.bootstrap)
        exchange.commit_offsets(kwire.bootstrap)
    return path


def files(directory: Path, topics: str = "*", suffixes: tuple[str, ...] = SHOWN_BY_BOTH) -> list:
    """The files that both tools show."""
    found = sorted(directory.glob(f"{topics}-*/*"))
    return [path for path in found if path.name.endswith(suffixes)]


def kafkas(*arguments: str) -> list[str]:
    """What Kafka's tool prints; it may complain of nothing."""
    run = finished_tool(DUMP, *arguments)
    assert run.returncode == 0, run.stderr
    told = [line for line in run.stderr.splitlines() if not BEGINNING.fullmatch(line)]
    gaps = [line for line in told if "is followed by" in line]
    assert all(line.startswith("Non-consecutive offsets in ") for line in told if line not in gaps)
    assert not [line for line in gaps if "exchange.transactions" not in line], gaps
    return run.stdout.splitlines()


def kwires(*arguments: str) -> list[str]:
    """What kwire's tool prints."""
    run = subprocess.run(
        [sys.executable, "-m", "kwire", "dump-log", *arguments],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def parsed(lines: list[str]) -> list[object]:
    """Lines, and the JSON in them apart: the order of its fields doesn't count."""
    return [(JSON.sub("{}", line), [json.loads(x) for x in JSON.findall(line)]) for line in lines]


def named(shown: str) -> str:
    """The line with a transaction's state by its name, where 4.3 has a number."""
    return STATUS.sub(lambda found: f'{found[1]}"{TransactionState(int(found[2])).title}"', shown)


def same(found: list[Path], *options: str) -> list[str]:
    """What Kafka's tool prints of files, after kwire's has printed the same."""
    shown = [named(line) for line in kafkas(*options, "--files", ",".join(map(str, found)))]
    own = kwires(*options, *map(str, found))
    assert len(own) == len(shown)
    for wanted, line in zip(parsed(shown), parsed(own), strict=True):
        assert line == wanted
    return shown


def test_every_file_that_kwire_wrote(directory: Path) -> None:
    """Each batch is valid, each record is there, no byte is left over; kwire says the same."""
    found = files(directory)
    assert {path.suffix for path in found} == set(SHOWN_BY_BOTH) - {".checkpoint"}
    assert len(files(directory, "exchange.zstd", (".log",))) > 1
    shown = same(found, "--deep-iteration")
    batches = [line for line in shown if line.startswith("baseOffset: ")]
    assert batches
    assert all(line.endswith("isvalid: true") for line in batches)
    codecs = {re.search(r"compresscodec: (\w+)", line)[1] for line in batches}  # type: ignore[index]
    assert codecs == set(exchange.CODECS)
    assert any("endTxnMarker: ABORT" in line for line in shown)
    assert any("LogAppendTime" in line for line in shown)
    assert not any("invalid bytes" in line for line in shown)


def test_keys_and_payloads(directory: Path) -> None:
    """Text, empty strings and nulls, and part of a file."""
    plain = files(directory, "exchange.plain", (".log",))
    assert any("key: gone" in line for line in same(plain, "--print-data-log"))
    same(plain, "--print-data-log", "--skip-record-metadata")
    same(plain, "--max-bytes", "4000")


def test_indexes_fit_their_segments(directory: Path) -> None:
    """As a broker checks them when it starts, and entry by entry against the log."""
    found = files(directory, suffixes=(".index", ".timeindex"))
    shown = same(found, "--index-sanity-check")
    assert len(shown) == 2 * len(found)
    assert len(same(found, "--verify-index-only")) >= len(found)


def test_internal_topics(directory: Path) -> None:
    """Groups and transactions are decoded: every field of every record."""
    offsets = same(files(directory, "__consumer_offsets", (".log",)), "--offsets-decoder")
    assert any(f'"group":"{exchange.GROUP}","topic":"exchange.plain"' in line for line in offsets)
    states = files(directory, "__transaction_state", (".log",))
    assert any(
        '"transactionalId":"exchange-1"' in x for x in same(states, "--transaction-log-decoder")
    )
    assert not any("skipping" in line for line in offsets)
