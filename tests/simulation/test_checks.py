"""The simulation finds bugs: each of these is put in, and a check has to see it."""

import re
from pathlib import Path

import pytest

from kwire.broker import remote_verification
from kwire.metadata import registration
from kwire.metadata.etcd.etcd_store import EtcdStore
from tests.simulation import scenarios
from tests.simulation.run import simulate
from tests.simulation.scenarios import Fault, under
from tests.simulation.world import World


def _fails(fault: Fault, seeds: range, root: Path, *, match: str) -> None:
    """One of the seeds fails, for this reason."""
    found = []
    for seed in seeds:
        here = root / str(seed)
        here.mkdir()

        async def scenario(world: World) -> None:
            await under(world, fault)

        try:
            simulate(seed, here, scenario)
        except BaseExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            found.append(str(error))
            if re.search(match, found[-1]):
                return
    pytest.fail(f"no seed fails with {match!r}: {found}")


def test_commits_without_a_guard_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S7: a controller that was replaced commits all the same."""
    commit = EtcdStore.commit
    monkeypatch.setattr(
        EtcdStore,
        "commit",
        lambda store, expected, changes, guard=None: commit(store, expected, changes),
    )
    match = "without a session|isn't the controller"
    _fails(scenarios.stale_controller, range(1, 9), tmp_path, match=match)


def test_a_fenced_leader_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fencing forgets to take the broker out of leaderships."""
    monkeypatch.setattr(registration, "without_brokers", lambda image, lost, **_more: [])
    _fails(scenarios.kills, range(1, 9), tmp_path, match="a fenced broker leads")


def test_writes_after_the_end_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S20: a marker doesn't take back what the coordinator has allowed before."""

    class Kept(dict):  # type: ignore[type-arg]
        def pop(self, *key: object) -> None:
            """Keep the note."""

        def __delitem__(self, key: object) -> None:
            """Keep the note."""

    def keep(world: World) -> None:
        for node in world.nodes.values():
            node.broker.verified = Kept()

    async def fault(world: World) -> None:
        keep(world)
        await scenarios.slow_network(world)

    assert remote_verification.is_verified
    _fails(fault, range(1, 40), tmp_path, match="transactions hang|is in")
