"""What a start costs, counted, not timed: modules that are loaded, and waits for the disk.

``start.tsv`` holds the counts of a broker in a new directory: once it is ready, and once it has
acknowledged a first record in a first topic. A test fails when one grows; ``make costs`` renews
them. Modules are kwire's own: those of Python and of libraries differ between their versions, so of
these there is a list of what must not be loaded. What SQLite does is not seen here.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.rows.common import create_topic, next_offset, produce_request
from kwire.testing.waiting import wait_until

COUNTS = Path(__file__).parent / "start.tsv"
RENEW = "KWIRE_RENEW_COSTS"
READY, FIRST_RECORD = "until ready", "after a first record"

NOT_LOADED = {
    *("_ssl", "_hashlib", "email", "importlib.metadata", "asyncio", "concurrent.futures"),
    *("http", "unittest", "multiprocessing", "decimal", "cramjam", "lz4", "zstandard", "crc32c"),
    *("kwire.broker.groups", "kwire.broker.transactions", "kwire.broker.compaction"),
    *("kwire.broker.kafka_import", "kwire.cli.dump_log"),
}
"""What a start has no use for and would feel: milliseconds or megabytes each."""

SERVE = """
import json, os, sys
syncs = 0
def counting(real):
    def sync(file):
        global syncs
        syncs += 1
        return real(file)
    return sync
os.fsync, os.fdatasync = counting(os.fsync), counting(os.fdatasync)
def tell(*_):
    loaded = [name for name, module in sys.modules.items() if module is not None]
    print(json.dumps({"modules": loaded, "syncs": syncs}), flush=True)
import signal
signal.signal(signal.SIGUSR1, tell)
from kwire.cli import main
main(["serve", "--data-dir", sys.argv[1], "--listen", "127.0.0.1:0"])
"""
"""A broker that tells on SIGUSR1 what it has loaded, and how often it has waited for the disk."""


class CountingBroker:
    """A broker in a process that counts."""

    def __init__(self, directory):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(directory)], stdout=subprocess.PIPE, text=True
        )
        ready = self.process.stdout.readline()
        self.bootstrap = ready.partition("ready: ")[2].partition(" ")[0]

    def counts(self):
        """(names of modules, waits for the disk) so far."""
        self.process.send_signal(signal.SIGUSR1)
        told = json.loads(self.process.stdout.readline())
        return set(told["modules"]), told["syncs"]

    def end(self):
        """Stop it."""
        self.process.terminate()
        self.process.communicate()


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """What was counted at each of the two times."""
    broker = CountingBroker(tmp_path_factory.mktemp("start") / "data")
    try:
        # The last module of a start, which may come a moment after the broker has said it is ready.
        wait_until(lambda: "kwire.cli.gc_tuning" in broker.counts()[0], what="the end of the start")
        counted = {READY: broker.counts()}
        create_topic(broker.bootstrap, "first")
        next_offset(broker.bootstrap, produce_request("first", 1, 100))
        counted[FIRST_RECORD] = broker.counts()
    finally:
        broker.end()
    return counted


def numbers(counted):
    """What is recorded: (what, when) → number."""
    found = {}
    for when, (modules, syncs) in counted.items():
        own = [name for name in modules if name.partition(".")[0] == "kwire"]
        found["kwire's modules", when] = len(own)
        found["waits for the disk", when] = syncs
    return found


def read_counts():
    """What was recorded."""
    rows = [line.split("\t") for line in COUNTS.read_text(encoding="utf-8").splitlines()[1:]]
    return {(what, when): int(number) for what, when, number in rows}


def test_no_start_costs_more_than_it_did(counted):
    found = numbers(counted)
    if os.environ.get(RENEW):
        rows = [f"{what}\t{when}\t{number}" for (what, when), number in sorted(found.items())]
        COUNTS.write_text("\n".join(["what\twhen\tnumber", *rows, ""]), encoding="utf-8")
    recorded = read_counts()
    grown = {key: f"{recorded[key]} → {found[key]}" for key in found if found[key] > recorded[key]}
    assert not grown, "a start costs more; if that has a reason: make costs"


def test_what_a_start_has_no_use_for_is_not_loaded(counted):
    modules, _ = counted[FIRST_RECORD]
    assert not modules & NOT_LOADED
