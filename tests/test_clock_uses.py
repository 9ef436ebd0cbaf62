"""The code takes the time from ``kwire.clock``; each other use of a clock has its reason here.

docs/decisions/0018-two-clocks.md says which timer goes by which clock.
"""

import ast
import re
from functools import cache

import pytest

from tests.test_tidy import PACKAGE, dotted, python_files, text_of

DATES = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.datetime.now"}
"""What reads the wall clock."""

SPANS = {
    *("time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns"),
    *("time.clock_gettime", "time.clock_gettime_ns"),
}
"""What reads a clock that stops while the machine sleeps, or any clock at all."""

TRIO = {"trio.current_time"}

OTHER_PROGRAMS = {
    "cli": "a command that a person runs: its dates, its waits and its progress",
    "client": "waits for a broker that is asked",
    "spark": "a query of Spark, whose machine has its own dates and waits",
    "testing": "tools of tests",
}
"""Folders in which any clock may be read, except by ``DATES`` in ``client``."""

USES: list[tuple[set[str], str, tuple[str, ...]]] = [
    (DATES | SPANS, "the only place that reads the system's clocks", ("clock",)),
    (
        DATES,
        "whether a certificate is valid at this date, and the dates of a new one",
        ("security/authority", "security/renewal"),
    ),
    (
        SPANS,
        "how long a piece of work took, for metrics and for turns of some milliseconds",
        (
            *("budget/slices", "budget/work", "dispatch/metering", "connection/poller"),
            *("dispatch/stopwatch", "log/syncing", "server", "web/cross_loop_calls"),
        ),
    ),
    (
        SPANS,
        "the rate of work in a thread or process that sleeps with the machine",
        ("log/compaction/local", "log/compaction/worker", "web/governor"),
    ),
    (SPANS, "how often a long start writes a line to the log", ("log/loading",)),
    (SPANS, "for how long a search of the page reads records", ("web/page/reading",)),
    (
        SPANS,
        "for how long a schema registry is waited for, and when it is asked again",
        ("schemas/cache", "schemas/readable", "web/page/schemas"),
    ),
    (
        SPANS,
        "the wait for another process on this machine, which sleeps with it",
        ("workers/directory",),
    ),
    (
        TRIO,
        "waits for a client, and how long it may be silent",
        (
            "broker/share_partitions",
            *("broker/groups", "connection/acceptor", "connection/connection_rates"),
            *("connection/deadlines", "dispatch/metering", "connection/outbox"),
            *("connection/poller", "handlers/fetch", "handlers/share_fetch", "housekeeping"),
            *("handlers/sasl_authenticate", "handlers/sasl_handshake", "server"),
            "web/connections",
        ),
    ),
    (
        TRIO,
        "waits of a request for replicas, for a commit, or for a transaction that ends",
        (
            *("broker/delayed_response", "handlers/delete_records", "handlers/lib/await_elections"),
            *("handlers/produce", "handlers/lib/delayed_response"),
            "handlers/lib/share_acknowledgements",
        ),
    ),
    (
        TRIO,
        "waits for another broker, its lag, and pauses before it is asked again",
        (
            *(
                "broker/replica/fetcher",
                "broker/replica/alter_partition_manager",
                "broker/membership",
                "broker/failure_detector",
            ),
            *(
                "broker/replica/taskless_fetching",
                "broker/replica/replica_sessions",
                "handlers/replica_fetch",
            ),
            "security/among_brokers",
        ),
    ),
    (TRIO, "waits for etcd", ("metadata/etcd/http_gateway",)),
    (TRIO, "the rate of copying between directories", ("broker/replica/replica_moves",)),
    (TRIO, "how long runs of syncs take, and when the next ones are due", ("broker/flusher",)),
    (TRIO, "turns of the event loop", ("connection/own_wait", "runtime")),
    (
        TRIO,
        "waits for a process of this machine, which sleeps with it",
        ("metadata/supervised/turns", "workers/supervisor", "workers/worker"),
    ),
]
"""Clocks, the reason, and the modules that may read them."""


MAY_READ = re.compile(r"\btime\.|\bfrom time\b|\bdatetime\b|\bcurrent_time\b")
"""A file without any of these reads no clock, and needs no syntax tree."""


@cache
def uses() -> dict[str, set[str]]:
    """The clocks that each module reads, for all modules that read one."""
    every = DATES | SPANS | TRIO
    found = {}
    for path in python_files("kwire"):
        text = text_of(path)
        read = set(_read(ast.parse(text))) & every if MAY_READ.search(text) else set()
        if read:
            found[path.relative_to(PACKAGE).with_suffix("").as_posix()] = read
    return found


def _read(tree: ast.Module) -> list[str]:
    """Every ``a.b.c``, and every name that is imported from ``time`` or ``trio``."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.append(dotted(node))
        elif isinstance(node, ast.ImportFrom) and node.module in {"time", "trio"}:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def allowed(module: str) -> set[str]:
    """The clocks that a module may read."""
    room = module.split("/")[0]
    if room in OTHER_PROGRAMS:
        return SPANS | TRIO if room == "client" else DATES | SPANS | TRIO
    return set().union(*(clocks for clocks, _, modules in USES if module in modules))


def test_the_time_comes_from_the_brokers_clock() -> None:
    """So an interval sees no new date and counts a sleep, unless the list above says why not."""
    wrong = {module: clocks - allowed(module) for module, clocks in uses().items()}
    assert {module: clocks for module, clocks in wrong.items() if clocks} == {}


def test_the_list_has_no_module_too_many() -> None:
    """Each module in it reads the clock that it is listed for."""
    idle = {
        (module, why)
        for clocks, why, modules in USES
        for module in modules
        if not clocks & uses().get(module, set())
    }
    assert idle == set()


@pytest.mark.parametrize(
    "text",
    [
        "import time\nnow = time.monotonic()",
        "from time import monotonic\nnow = monotonic()",
        "import trio\nnow = trio.current_time",
        "from datetime import datetime\nnow = datetime.now()",
    ],
)
def test_a_clock_is_seen_however_it_is_read(text: str) -> None:
    """By its module, by its own name, and as a value."""
    assert set(_read(ast.parse(text))) & (DATES | SPANS | TRIO)
    assert MAY_READ.search(text)
