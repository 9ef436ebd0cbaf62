"""Settings every unit test shares.

Property tests repeat the same examples on every run, so a red test stays red; `make fuzz` looks
for new ones and for many more of them. It prints its seed, and the same seed tries the same
examples again. Hypothesis may need minutes to make a failing example small, so `make fuzz` prints
the example as it was found, unless SHRINK=yes asks for the small one.
"""

import gc
import os
import signal
import tracemalloc  # noqa: F401 - pytest's hook imports it, halfway if garbage is collected then
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from kwire.metadata import embedded
from tests.names import show_names
from tests.rewriting import rewrite_a_share
from tests.support.clock import step_clock

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=20,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    deadline=None,
    database=None,
    phases=[p for p in Phase if p is not Phase.shrink or os.environ.get("KWIRE_FUZZ_SHRINK")],
    max_examples=int(os.environ.get("KWIRE_FUZZ_EXAMPLES", "5000")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Private attributes: Hypothesis has no setting for the constants that it tries.
if "KWIRE_FUZZ_EXAMPLES" in os.environ:
    settings.load_profile("fuzz")
else:
    settings.load_profile("repeatable")
    # Else Hypothesis reads every module to try its constants too: which modules there are depends
    # on the tests before, and so would the examples.
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", providers.Constants)

ROOT = Path(__file__).parent.parent
MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30
TEMPROOT = "PYTEST_DEBUG_TEMPROOT"
"""Where pytest makes its temporary directories; ``--basetemp`` is stronger."""


def takes_files(directory: Path) -> bool:
    """Whether it has room for the tests' files, and lets programs run that are among them."""
    if not (directory.is_dir() and os.access(directory, os.W_OK)):
        return False
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


# Tests make some 100,000 files. In memory this takes a third less time in all, and no writer has to
# wait for a disk that others use. They are real files of a real file system there as well.
if TEMPROOT not in os.environ and takes_files(MEMORY):
    os.environ[TEMPROOT] = str(MEMORY)


PROCESSES = (
    "tests/bench/test_bench.py",
    "tests/cli/test_commands.py",
    "tests/cli/test_journal.py",
    "tests/cli/test_service_manager.py",
    "tests/cli/test_starting.py",
    "tests/log/test_kill.py",
    "tests/mutants/test_trial.py",
    "tests/parts/test_ends.py",
    "tests/parts/test_parts.py",
    "tests/parts/test_report.py",
    "tests/performance/test_costs.py",
    "tests/registry/test_protobuf.py",
    "tests/registry/test_serving.py",
    "tests/server/test_backup.py",
    "tests/server/test_bad_input.py",
    "tests/server/test_cluster_kills.py",
    "tests/server/test_crash_in_transactions.py",
    "tests/simulation/test_checks.py",
    "tests/simulation/test_cluster.py",
    "tests/simulation/test_in_sync.py",
    "tests/simulation/test_scenarios.py",
    "tests/spark/test_dead_letter_topics.py",
    "tests/test_cli.py",
    "tests/test_cli_doc.py",
    "tests/test_deploy.py",
    "tests/test_distribution.py",
    "tests/test_plain_install.py",
    "tests/test_readme.py",
    "tests/testing/faults/test_clients.py",
    "tests/testing/faults/test_elsewhere.py",
    "tests/testing/test_kafka_cluster.py",
    "tests/testing/test_kafka_secured.py",
    "tests/testing/test_process.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/testing/test_recipes.py",
    "tests/workers/test_advertised.py",
    "tests/workers/test_directories.py",
    "tests/workers/test_moving.py",
    "tests/workers/test_processes.py",
    "tests/workers/test_secured.py",
)
"""Tests that spend seconds: in other programs (builds, compilers, stock clients, brokers, runs of
pytest), in whole clusters, in meters. `make processes` runs them; `make check` leaves
them out, because it is for before every commit."""

WORST_CASES = (
    "tests/budget/test_freeing.py",
    "tests/budget/test_worst_requests.py",
    "tests/connection/test_attacks.py",
    "tests/soak",
    "tests/web/test_attackers.py",
)
"""Tests of the worst that clients can do: hostile clients, the largest requests, a life of many
cycles. They take millions of steps. `make worst-cases` runs them, and none of the other two."""


FEW_COLLECTIONS = 5_000
"""So many more new objects, not 700, before the collector of garbage looks at them: it takes a
third of the time in all, and what is in circles still goes before the next file of tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Show what runs."""
    gc.set_threshold(FEW_COLLECTIONS, *gc.get_threshold()[1:])
    show_names(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Share the rewriting of test files among the processes."""
    rewrite_a_share(session.config)


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: tests wait a quarter of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of ``PROCESSES`` and ``WORST_CASES``, which name files and directories."""
    marks = {ROOT / name: "processes" for name in PROCESSES}
    marks |= {ROOT / name: "worst_cases" for name in WORST_CASES}
    for path, of_file in groupby(items, lambda item: item.path):
        found = [marks[place] for place in (path, *path.parents) if place in marks]
        for item in of_file if found else ():
            for mark in found:
                item.add_marker(mark)


def pytest_collection_finish() -> None:
    """Nothing of what the tests are made of becomes garbage: collections needn't look at it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def nobody_waits_for_the_disk() -> Iterator[None]:
    """Brokers in this process don't wait for syncs, which would take most of a short test's time.

    No test cuts a real power: what is synced, and when, is seen at the door to the disk
    (``tests.support.machine``). Files are real, and brokers in processes of their own do sync.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        patch.setattr(embedded, "SYNCHRONOUS", "OFF")
        yield


OPEN_FILES = Path("/proc/self/fd")
MOST_LEFT_OPEN = 20
"""Descriptors that a file of tests may leave: those of libraries, and of what the run shares."""


@pytest.fixture(scope="session", autouse=True)
def slices_have_no_real_time() -> Iterator[None]:
    """A slice of a broker in this process ends after a number of looks at the clock.

    By real time, a request would need another slice now and then, because the machine was busy.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in ("kwire.budget.work", "kwire.budget.slices"):
            step_clock(patch, module, 1e-6)
        yield


@pytest.fixture(scope="module", autouse=True)
def no_file_of_tests_leaves_descriptors() -> Iterator[None]:
    """Tests take out what they open, whoever has it open: a process may have 1,024 descriptors."""
    before = _open_files()
    yield
    left = {fd: name for fd, name in _open_files().items() if fd not in before}
    if len(left) > MOST_LEFT_OPEN:
        gc.collect()
        left = {fd: name for fd, name in _open_files().items() if fd not in before}
        assert len(left) <= MOST_LEFT_OPEN, left


def _open_files() -> dict[str, str]:
    """What each descriptor of this process is of; nothing where the system doesn't tell."""
    found = {}
    for fd in os.listdir(OPEN_FILES) if OPEN_FILES.exists() else ():
        with suppress(OSError):  # that of the listing itself
            found[fd] = os.readlink(OPEN_FILES / fd)
    return found


@pytest.fixture
def hangups_count() -> Iterator[None]:
    """SIGHUP ends what a test starts, also where the tests run under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
