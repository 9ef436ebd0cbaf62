"""``kwire topics``, ``configs``, ``records``, ``cluster``, ``health`` and ``bench``."""

from compat_tests.command_line import CommandLine
from compat_tests.conftest import Names


def test_a_topic_from_its_creation_to_its_deletion(cli: CommandLine, names: Names) -> None:
    """Every step is said, and seen by the next one."""
    topic = names.topic()
    options = ("--partitions", "3", "--config", "retention.ms=100000")
    assert cli.ok("topics", "create", topic, *options).out == f"created {topic} (3 partitions)\n"
    [row] = [row for row in cli.ok("topics", "list", "--json").json if row["name"] == topic]
    assert row == {"name": topic, "partitions": 3, "replicas": 1, "internal": False}
    assert any(line.split() == [topic, "3", "1"] for line in cli.ok("topics", "list").lines)
    [found] = cli.ok("topics", "describe", topic, "--json").json
    assert found["configs"]["retention.ms"] == "100000"
    assert [(p["partition"], p["start"], p["end"]) for p in found["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    assert "retention.ms=100000" in cli.ok("topics", "describe", topic).out
    cli.ok("topics", "alter", topic, "--set", "retention.ms=200000")
    cli.ok("topics", "add-partitions", topic, "--by", "2")
    [found] = cli.ok("topics", "describe", topic, "--json").json
    assert (len(found["partitions"]), found["configs"]["retention.ms"]) == (5, "200000")
    assert cli.ok("topics", "delete", topic).out == f"deleted {topic}\n"
    assert topic not in cli.ok("topics", "list").out


def test_what_is_wrong_with_a_topic_is_one_line(cli: CommandLine, names: Names) -> None:
    """With the name, Kafka's error and what to do; the exit code is 1."""
    topic = names.topic()
    for command in (("describe",), ("delete",)):
        done = cli("topics", *command, topic)
        assert (done.code, len(done.err.splitlines())) == (1, 1)
        assert f"there is no topic {topic}" in done.err
    cli.ok("topics", "create", topic)
    done = cli("topics", "create", topic)
    assert (done.code, "TOPIC_ALREADY_EXISTS" in done.err) == (1, True)
    assert cli.ok("topics", "create", topic, "--if-not-exists").out == f"{topic} exists already\n"
    done = cli("topics", "create", f"{topic}-2", "-r", "9")
    assert (done.code, "INVALID_REPLICATION_FACTOR" in done.err) == (1, True)
    done = cli("topics", "alter", topic, "--set", "retention.ms=long")
    assert (done.code, "INVALID_CONFIG" in done.err) == (1, True)
    done = cli("topics", "add-partitions", topic, "--to", "1")
    assert (done.code, "INVALID_PARTITIONS" in done.err) == (1, True)


def test_changes_as_json(cli: CommandLine, names: Names) -> None:
    """What became of each name; a failure is said on stderr too."""
    old, new = names.topic(), names.topic()
    cli.ok("topics", "create", old)
    done = cli("topics", "create", old, new, "--json")
    assert (done.code, "TOPIC_ALREADY_EXISTS" in done.err) == (1, True)
    [refused, created] = done.json
    assert (refused["name"], refused["ok"], refused["error"]) == (
        *(old, False, "TOPIC_ALREADY_EXISTS"),
    )
    assert (created["name"], created["ok"]) == (new, True)
    for command in (
        ("topics", "alter", new, "--set", "retention.ms=5"),
        ("topics", "add-partitions", new, "--by", "1"),
        ("configs", "unset", "topic", new, "retention.ms"),
        ("topics", "delete", new),
    ):
        [row] = cli.ok(*command, "--json").json
        assert (row["name"], row["ok"]) == (new, True)


def test_a_dry_run_changes_nothing(cli: CommandLine, names: Names) -> None:
    """It says what would happen."""
    topic = names.topic()
    assert "would create" in cli.ok("topics", "create", topic, "--dry-run").out
    assert topic not in cli.ok("topics", "list").out
    cli.ok("topics", "create", topic)
    cli.ok("topics", "add-partitions", topic, "--to", "9", "--dry-run")
    cli.ok("configs", "set", "topic", topic, "retention.ms=5", "--dry-run")
    [found] = cli.ok("topics", "describe", topic, "--json").json
    assert (len(found["partitions"]), "retention.ms" in found["configs"]) == (1, False)


def test_configs_say_where_their_values_come_from(cli: CommandLine, names: Names) -> None:
    """And what would count without the first value."""
    topic = names.topic()
    cli.ok("topics", "create", topic)
    cli.ok("configs", "set", "topic", topic, "segment.ms=70000", "cleanup.policy=compact,delete")
    rows = cli.ok("configs", "describe", "topic", topic, "segment.ms", "--json").json
    assert [(row["name"], row["value"], row["source"]) for row in rows] == [
        ("segment.ms", "70000", "topic")
    ]
    assert "segment.ms" in cli.ok("configs", "describe", "topic", topic).out
    assert len(cli.ok("configs", "describe", "topic", topic, "--all", "--json").json) > 20
    cli.ok("configs", "unset", "topic", topic, "segment.ms", "cleanup.policy")
    rows = cli.ok("configs", "describe", "topic", topic, "segment.ms", "--json").json
    assert rows[0]["source"] == "default"
    assert cli("configs", "describe", "topic", names.topic()).code == 1
    done = cli("configs", "describe", "broker", "77")
    assert (done.code, "the cluster has no broker 77" in done.err) == (1, True)
    assert cli("configs", "describe", "broker", "first").code == 1


def test_records_are_deleted_before_an_offset(cli: CommandLine, names: Names) -> None:
    """The log start offset moves, and consumers begin there."""
    topic = names.topic()
    cli.ok("topics", "create", topic)
    cli.produce(topic, "a\nb\nc\nd\n")
    [row] = cli.ok("records", "delete", topic, "--before-offset", "3", "--dry-run", "--json").json
    assert (row["start_before"], row["start"], row["offsets"]) == (0, 3, 3)
    assert cli.consume(topic, "--from-beginning") == ["a", "b", "c", "d"]
    cli.ok("records", "delete", topic, "--before-offset", "3")
    assert cli.consume(topic, "--from-beginning") == ["d"]
    cli.ok("records", "delete", topic, "--all")
    assert cli.consume(topic, "--from-beginning") == []
    assert cli("records", "delete", topic, "--all", "-p", "4").code == 1


def test_the_cluster_and_its_health(cli: CommandLine, bootstrap: str) -> None:
    """Brokers that are well."""
    brokers = cli.ok("cluster", "brokers", "--json").json
    assert sorted(f"{b['host']}:{b['port']}" for b in brokers) == sorted(bootstrap.split(","))
    controller = cli.ok("cluster", "controller", "--json").json
    assert controller["controller"] in {broker["id"] for broker in brokers}
    assert len(controller["cluster"]) == 22
    features = {row["feature"]: row for row in cli.ok("cluster", "features", "--json").json}
    assert features["metadata.version"]["level"] >= 1
    health = cli.ok("health", "--json", "--wait", "20s").json
    assert health["healthy"] is True
    assert [check["check"] for check in health["checks"]] == [
        "brokers",
        "metadata",
        "leaders",
        "replicas",
        "coordinators",
    ]
    assert cli.ok("health").lines[-1] == "healthy"


def test_a_small_bench_leaves_nothing_behind(cli: CommandLine) -> None:
    """Three rows, and its topic is gone."""
    rows = cli.ok("bench", "-n", "1000", "--json").json
    assert [row["unit"] for row in rows] == ["ms (median)", "records/s", "records/s"]
    assert "the client, one Python process" in rows[-1]["more"]
    assert all(row["value"] > 0 for row in rows)
    assert "kwire-bench" not in cli.ok("topics", "list").out
