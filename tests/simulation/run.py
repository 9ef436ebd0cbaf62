"""Runs a scenario from a seed; a run that fails says how to repeat it.

Rules:

- trio shuffles the tasks that may run, by the seed.
- ``KWIRE_ONLY`` has the numbers of the faults that happen (see ``faults``). All others are left
  out; ``none`` leaves out all.
- A failure is attached to its error, for ``replay``: what it takes to run it again.
"""

import os
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import trio

from kwire.budget.thread_pool import ThreadPool
from tests.simulation.faults import Fault
from tests.simulation.sockets import make_pollers_steady
from tests.simulation.threads import Threads
from tests.simulation.trio_insides import seeded_order
from tests.simulation.virtual_time import VirtualClock
from tests.simulation.world import NO_SETTINGS, NODES, TooLate, World

ONLY_VARIABLE = "KWIRE_ONLY"
NO_FAULTS = "none"
TIMES_VARIABLE = "KWIRE_VIRTUAL_TIMES"
"""The environment variable that names the file to which each run appends its seconds."""

SAYING = ("_check", "_fail")
"""The functions that raise the error of an invariant, which their caller checks."""

FAILURE = "failure_of_simulation"
"""The attribute of an error that holds the ``Failure``."""

Scenario = Callable[[World], Awaitable[None]]


class Run(NamedTuple):
    """What a run is made of, but for its directory and what is left out."""

    seed: int
    scenario: Scenario
    limit_s: float = 900.0
    replicated: bool = False
    settings: Mapping[str, str] = NO_SETTINGS
    nodes: Sequence[int] = NODES

    def go(self, root: Path, only: Collection[str] | None = None) -> list[str]:
        """Run it in an empty directory; what happened. Its error has a ``Failure``."""
        world = World(
            self.seed,
            root,
            replicated=self.replicated,
            settings=self.settings,
            nodes=self.nodes,
            only=only,
        )
        try:
            with _deterministic(self.seed) as patch:
                world.checks.patch(patch)
                trio.run(self._live, world, clock=VirtualClock(), strict_exception_groups=True)
        except BaseException as error:
            found = world.checks.failure or first_of(error)
            setattr(error, FAILURE, Failure(self, root, invariant_of(found), world))
            error.add_note("\n".join(world.notes[-60:]))
            raise
        finally:
            world.close()
        return world.notes

    async def _live(self, world: World) -> None:
        with trio.fail_after(self.limit_s):
            async with trio.open_nursery() as world.nursery:
                world.nursery.start_soon(world.etcd.run)
                world.nursery.start_soon(world.checks.run)
                world.start_all()
                await world.all_ready()
                await self.scenario(world)
                _note_time()
                world.nursery.cancel_scope.cancel()


class Failure:
    """A run that has failed: which invariant it broke, and the numbered faults until then."""

    def __init__(self, run: Run, root: Path, invariant: str, world: World) -> None:
        self.run = run
        self.root = root
        self.invariant = invariant
        self.faults: list[Fault] = world.faults.begun


def failure_of(error: BaseException) -> Failure | None:
    """The failed run that an error tells of."""
    return getattr(error, FAILURE, None)


def first_of(error: BaseException) -> BaseException:
    """The first error of a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def invariant_of(error: BaseException) -> str:
    """The name of what an error says: the same for two errors of one invariant."""
    if isinstance(error, TooLate):
        return f"in time: {error.args[1]}"
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.name not in SAYING]
    where = f"{Path(frames[-1].filename).name}, {frames[-1].name}, line {frames[-1].lineno}"
    return f"{type(error).__name__} in {where}"


def simulate(
    seed: int,
    root: Path,
    scenario: Scenario,
    limit_s: float = 900.0,
    *,
    replicated: bool = False,
    settings: Mapping[str, str] = NO_SETTINGS,
    nodes: Sequence[int] = NODES,
) -> list[str]:
    """Run a scenario from a seed; what happened. An error names the seed in its notes.

    Each partition has one replica, or three. ``settings`` are those of all brokers.
    """
    run = Run(seed, scenario, limit_s, replicated, settings, nodes)
    try:
        return run.go(root, only_these(os.environ.get(ONLY_VARIABLE, "")))
    except BaseException as error:
        error.add_note(f"to repeat this run: {command_for(seed)}")
        raise


def only_these(numbers: str) -> list[str] | None:
    """The numbers of faults in a variable; None leaves out none."""
    if not numbers:
        return None
    return [] if numbers == NO_FAULTS else numbers.split(",")


def command_for(seed: int, only: Sequence[str] | None = None) -> str:
    """The command that repeats this run of this test, perhaps with a few of its faults alone."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0]
    hashes = os.environ.get("PYTHONHASHSEED", "random")
    chosen = "" if only is None else f"{ONLY_VARIABLE}={','.join(only) or NO_FAULTS} "
    return f"{chosen}PYTHONHASHSEED={hashes} pytest '{test}' --seed {seed}"


def _note_time() -> None:
    """Append how much virtual time a run took, where somebody wants to know."""
    if path := os.environ.get(TIMES_VARIABLE):
        with open(path, "a") as file:
            file.write(f"{trio.current_time():.3f}\n")


@contextmanager
def _deterministic(seed: int) -> Iterator[pytest.MonkeyPatch]:
    """Let a seed decide the order of tasks, and how late the work of threads is done."""
    threads = Threads(Random(seed + 3))

    async def run(
        self: ThreadPool, function: Callable[..., Any], *args: Any, abandon: bool = False
    ) -> Any:
        return await threads.run(function, *args, abandon=abandon)

    with pytest.MonkeyPatch.context() as patch, seeded_order(seed):
        patch.setattr(ThreadPool, "run", run)
        make_pollers_steady(patch)
        yield patch
