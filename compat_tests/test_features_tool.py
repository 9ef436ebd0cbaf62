"""kafka-features.sh raises a cluster to a release of Kafka, which ends a rolling upgrade.

Kafka's other tools that change a cluster's controllers are asked, too: what isn't there can't go.
"""

import pytest

from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import VERSION
from compat_tests.test_transaction_tools import features

pytestmark = pytest.mark.skipif(VERSION == "4.3.1", reason="knows no release 4.4")

LEVELS = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "kraft.version": 1,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of features in Kafka 4.4."""

NO_CONTROLLER, NO_DIRECTORY = "77", "AAAAAAAAAAAAAAAAAAAABg"


def test_a_cluster_is_raised_to_its_release(bootstrap: str) -> None:
    """All features at once, as a trial first; its levels are shown as Kafka's release."""
    trial = features(bootstrap, "upgrade", "--release-version", "4.4", "--dry-run")
    done = features(bootstrap, "upgrade", "--release-version", "4.4")
    for name, level in LEVELS.items():
        assert f"{name} can be upgraded to {level}." in trial
        assert f"{name} was upgraded to {level}." in done
    shown = {
        line.split()[1]: line.split("FinalizedVersionLevel: ")[1].split()[0]
        for line in features(bootstrap, "describe").splitlines()
    }
    assert shown["metadata.version"] == "4.4-IV2"
    assert {shown[name] for name in ("group.version", "kraft.version")} == {"1"}
    assert shown["eligible.leader.replicas.version"] == "1"


@pytest.mark.parametrize("way", ["upgrade", "downgrade"])
def test_no_way_leads_back_to_the_release_before(bootstrap: str, way: str) -> None:
    said = features(bootstrap, way, "--release-version", "4.3", fails=True)
    assert f"Could not {way} group.version to 1. The update failed for all features since" in said
    assert "metadata.version" in said
    assert "7 out of 7 operation(s) failed." in said
    assert "4.4-IV2" in features(bootstrap, "describe")


def test_a_controller_that_is_not_there_does_not_go(bootstrap: str) -> None:
    """Kafka's tools give the reason of the broker."""
    server = ("--bootstrap-server", bootstrap)
    gone = ("--controller-id", NO_CONTROLLER, "--controller-directory-id", NO_DIRECTORY)
    quorum = "org.apache.kafka.tools.MetadataQuorumCommand"
    assert "VoterNotFound" in run_tool(quorum, *server, "remove-controller", *gone, fails=True)
    cluster = ("org.apache.kafka.tools.ClusterTool", "unregister-controller", *server)
    said = run_tool(*cluster, "--id", NO_CONTROLLER, fails=True)
    assert f"Controller ID {NO_CONTROLLER} is not currently registered." in said
