"""P3, P4, P11, P15 and P16: processes of a cluster end under load, at replication factor 1.

Each acknowledged record is there once, in order. `python -m bench.cluster` measures what a kill
costs (``--only controller``, ``etcd``, ``kills``), and repeats it (``--kills 200``).
"""

from functools import partial

import pytest

from bench.cluster.etcd_kills import leader_killed, stopped
from bench.cluster.kills import ClusterTrial
from bench.cluster.worker_kills import WorkersTrial
from tests.support.etcd import MISSING, find_etcd

LONGER_THAN_SESSIONS_S = 3.0
KILLS = 4


def test_brokers_and_etcd_end_under_load(tmp_path):
    """The controller by SIGKILL and by SIGTERM, the leader of three etcds, and all of them."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    scenarios = (
        ClusterTrial.controllers,
        partial(leader_killed, kills=1),
        partial(stopped, outage_s=LONGER_THAN_SESSIONS_S),
    )
    assert list(ClusterTrial(tmp_path).run(*scenarios))


def test_workers_and_their_supervisor_end_under_load(tmp_path):
    """Workers in turn, then the supervisor; the next start has the records of all."""
    assert list(WorkersTrial(tmp_path).run(KILLS))
