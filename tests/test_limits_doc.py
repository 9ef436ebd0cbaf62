"""docs/LIMITS.md names every limit on what a client can make grow, with the value in force."""

import re
from importlib import import_module
from pathlib import Path

from kwire.config.settings import BROKER, settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "LIMITS.md"
ROW = re.compile(r"^\| [^|]+ \| `([\w/]+)\.py` `(\w+)` \| ([^|]+) \|", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))

ROOMS = (
    *("protocol", "handlers", "coordinator", "metadata", "quotas", "budget"),
    *("broker", "connection", "dispatch", "security"),
)
CONSTANT = re.compile(
    r"^((?:MAX|MOST|LONGEST|LARGEST)(?:_[A-Z_]+)?|[A-Z_]+_AT_MOST)(?:: \w+)? = ", re.MULTILINE
)

DEFAULT = re.compile(r"`(kwire\.[\w.]+)` \(([\d,]+(?: [KM]iB)?)[),]")

NO_LIMITS_OF_CLIENTS = {
    "broker/replica/replica_fetch_connection MOST_AT_ONCE": "how much is read at a time",
    "broker/fetch_sessions MAX_ID": "where ids wrap",
    "broker/replica/fetchers MOST_FETCHERS": "a broker's own tasks",
    "broker/replica/alter_partition_manager LONGEST_REST_S": "a pause",
    "broker/replica/taskless_fetching MOST_NAMED": "what a fetcher's task asks for",
    "broker/failure_detector MOST_WATCHED": "other brokers",
    "broker/proposals MOST_BYTES": "what shares a commit",
    "broker/proposals MOST_DECISIONS": "what shares a commit",
    "broker/proposals MOST_LOGS_LEFT": "which commits wait for earlier ones",
    "broker/remote_coordinators MOST_PARTITIONS": "what shares a request of a broker",
    "broker/remote_markers MOST_PARTITIONS": "what shares a request of a broker",
    "broker/remote_verification MOST_OTHERS": "what shares a request of a broker",
    "broker/replica/replica_sessions MOST_OF_A_BROKER": "other brokers",
    "broker/metrics_counters MOST_BUGS": "what tests are told",
    "broker/replica/throttles LONGEST_PAUSE_S": "a pause",
    "broker/token_expiry MOST_AT_ONCE": "what shares a commit",
    "connection/own_wait LONGEST_S": "a wait",
    "connection/poller MAX_PATIENCE": "when the poller sleeps",
    "dispatch/serving MOST_BEHIND_BYTES": "what is begun while an earlier request waits",
    "coordinator/consumer/changes OVERTAKEN_AT_MOST": "when groups are settled",
    "coordinator/streams/changes OVERTAKEN_AT_MOST": "when groups are settled",
    "coordinator/transaction/coordinator MAX_TOMBSTONES": "what shares a batch",
    "coordinator/transaction/state MAX_EPOCH": "where epochs wrap",
    "handlers/lib/opening MAX_BYTES": "the name of a setting",
    "handlers/lib/opening MAX_RECORDS": "the name of a setting",
    "handlers/push_telemetry MOST_TIMES": "how far metrics may be compressed: MESSAGE_TOO_LARGE",
    "metadata/preferred_leader_election MOST_ELECTIONS": "what shares a commit",
    "metadata/preferred_leader_election MOST_IMBALANCE": "the controller's own work",
    "metadata/etcd/encoding LARGEST_BYTES": "what is in etcd",
    "metadata/supervised/frames MAX_FRAME_BYTES": "workers of one machine",
    "metadata/supervised/turns LONGEST_S": "workers of one machine",
    "protocol/error_codes MOST": "how many errors metrics look at",
    "protocol/frame MAX_FRAME_BYTES": "the default of socket.request.max.bytes",
    "protocol/single LONGEST": "what is decoded into values",
    "quotas/rates MOST_MS": "a wait",
    "security/jks MOST_KEY_BYTES": "an operator's own file",
    "security/jwks MOST_BYTES": "the answer of the server with the keys",
    "security/pkcs12_rounds MOST_ROUNDS": "an operator's own file",
}
"""Constants with such a name that bound nothing that a client makes grow; and why."""


def test_each_value_is_the_one_in_force() -> None:
    """In numbers, or in whole KiB or MiB."""
    for module, name, told in ROWS:
        value = getattr(import_module(f"kwire.{module.replace('/', '.')}"), name)
        assert told in forms(value), f"{name} is {value:,}"


def forms(value: int) -> set[str]:
    """How the page may write a number."""
    return {f"{value:,}", f"{value / 1024:g} KiB", f"{value / (1 << 20):g} MiB"}


def test_the_defaults_of_settings_are_those_of_the_page() -> None:
    """An operator compares them with what clients send."""
    told = DEFAULT.findall(PAGE.read_text(encoding="utf-8"))
    assert len(told) >= 10
    known = settings(BROKER)
    wrong = [name for name, value in told if value not in forms(int(known[name].default))]
    assert wrong == []


def test_no_limit_is_missing() -> None:
    """A new one gets a row, or a reason here why clients don't meet it."""
    told = {f"{module} {name}" for module, name, _ in ROWS}
    found = set()
    for room in ROOMS:
        for path in (ROOT / "kwire" / room).rglob("*.py"):
            module = path.relative_to(ROOT / "kwire").with_suffix("").as_posix()
            found |= {f"{module} {name}" for name in CONSTANT.findall(path.read_text("utf-8"))}
    assert found - told == set(NO_LIMITS_OF_CLIENTS)


def test_every_setting_of_a_limit_is_named() -> None:
    """Those of kwire itself; Kafka's are in its documentation."""
    page = PAGE.read_text(encoding="utf-8")
    short = {"kwire.metrics.max.": "kwire.metrics.max.topics"}
    missing = [
        name
        for name in settings(BROKER)
        if name.startswith("kwire.") and ".max" in name and name not in page
        if not any(name.startswith(start) and there in page for start, there in short.items())
    ]
    assert missing == []
