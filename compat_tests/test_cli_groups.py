"""``kwire groups`` and ``kwire consume --group``; ``kwire transactions``."""

import json

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, TopicPartition

from compat_tests.command_line import CommandLine
from compat_tests.conftest import Names
from kwire.testing.waiting import wait_until


@pytest.fixture
def topic(cli: CommandLine, names: Names) -> str:
    """A topic of two partitions with five records in each."""
    name = names.topic()
    cli.ok("topics", "create", name, "-p", "2")
    rows = [{"value": f"v{number}", "partition": number % 2} for number in range(10)]
    cli.produce(name, "\n".join(map(json.dumps, rows)), "--format", "json")
    return name


def lags(cli: CommandLine, group: str) -> dict[int, tuple[int | None, int | None]]:
    """Committed offset and lag of each partition."""
    [found] = cli.ok("groups", "describe", group, "--json").json
    return {row["partition"]: (row["committed"], row["lag"]) for row in found["partitions"]}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_was(
    cli: CommandLine, names: Names, topic: str, protocol: str
) -> None:
    """What was printed is committed, no more and no less; the member has left."""
    group = names.group()
    member = ("consume", topic, "-g", group, "--group-protocol", protocol, "--from-beginning")
    first = cli.ok(*member, "-n", "3").lines
    assert len(first) == 3
    assert sum(lag for _, lag in lags(cli, group).values() if lag is not None) in (2, 7)
    rest = cli.ok(*member, "--exit").lines
    assert sorted(first + rest) == sorted(f"v{number}" for number in range(10))
    assert lags(cli, group) == {0: (5, 0), 1: (5, 0)}
    assert cli.ok(*member, "--exit").lines == []
    [found] = cli.ok("groups", "describe", group, "--json").json
    assert (found["state"], found["type"], found["members"]) == ("Empty", protocol, [])
    [row] = [row for row in cli.ok("groups", "list", "--json").json if row["group"] == group]
    assert row["state"] == "Empty"


def test_a_new_group_commits_the_end_where_it_started(
    cli: CommandLine, names: Names, topic: str
) -> None:
    """So the next member misses nothing that was written between the two."""
    group = names.group()
    assert cli.ok("consume", topic, "-g", group, "--exit").lines == []
    cli.produce(topic, "late", "-p", "1")
    assert cli.ok("consume", topic, "-g", group, "--exit").lines == ["late"]


def test_partitions_are_shared_with_a_stock_client(
    cli: CommandLine, names: Names, topic: str, bootstrap: str
) -> None:
    """The members of a group show what each has; a reset is refused meanwhile."""
    group = names.group()
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "other"}
    other = Consumer(settings)
    other.subscribe([topic])
    try:

        def has_both() -> bool:
            other.poll(0.1)
            return len(other.assignment()) == 2

        wait_until(has_both)
        [found] = cli.ok("groups", "describe", group, "--json").json
        assert [member["client"] for member in found["members"]] == ["other"]
        assert found["members"][0]["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert {row["client"] for row in found["partitions"]} == {"other"}
        done = cli("groups", "reset", group, "--to-end", "--execute")
        assert (done.code, "has 1 member: stop them first" in done.err) == (1, True)
        done = cli("groups", "delete", group)
        assert (done.code, "NON_EMPTY_GROUP" in done.err) == (1, True)
        done = cli("groups", "delete-offsets", group, "-t", topic)
        assert (done.code, "GROUP_SUBSCRIBED_TO_TOPIC" in done.err) == (1, True)
    finally:
        other.close()


def test_offsets_are_reset(cli: CommandLine, names: Names, topic: str) -> None:
    """Only with --execute; offsets stay within the partitions."""
    group = names.group()
    done = cli("groups", "reset", group, "--to-end")
    assert (done.code, "has no committed offset: name topics with --topic" in done.err) == (1, True)
    reset = ("groups", "reset", group)
    plan = cli.ok(*reset, "--to-beginning", "-t", topic, "--json").json
    assert [(row["partition"], row["committed"], row["new"]) for row in plan] == [
        (0, None, 0),
        (1, None, 0),
    ]
    assert cli("groups", "describe", group).code == 1, "nothing was changed"
    cli.ok(*reset, "--to-offset", "3", "-t", f"{topic}:1", "--execute")
    assert lags(cli, group) == {1: (3, 2)}
    cli.ok(*reset, "--to-end", "-t", topic, "--execute")
    assert lags(cli, group) == {0: (5, 0), 1: (5, 0)}
    cli.ok(*reset, "--by", "-2", "--execute")
    assert lags(cli, group) == {0: (3, 2), 1: (3, 2)}
    cli.ok(*reset, "--by", "99", "--execute")
    assert lags(cli, group) == {0: (5, 0), 1: (5, 0)}
    assert "nothing is changed yet" in cli.ok(*reset, "--to-time", "1h").out
    assert lags(cli, group) == {0: (5, 0), 1: (5, 0)}
    cli.ok(*reset, "--to-time", "1h", "--execute")
    assert lags(cli, group) == {0: (0, 5), 1: (0, 5)}
    assert "no partition 9" in cli(*reset, "--to-end", "-t", f"{topic}:9").err


def test_offsets_and_groups_are_deleted(cli: CommandLine, names: Names, topic: str) -> None:
    """One partition's offset, then all."""
    group = names.group()
    cli.ok("groups", "reset", group, "--to-end", "-t", topic, "--execute")
    cli.ok("groups", "delete-offsets", group, "-t", f"{topic}:0")
    assert lags(cli, group) == {1: (5, 0)}
    assert cli.ok("groups", "delete", group).out == f"deleted {group}\n"
    done = cli("groups", "describe", group)
    assert done.code == 1
    # What it may have been, if a group has nearly its name, or how to see all.
    assert f"there is no group {group}" in done.err or "GROUP_ID_NOT_FOUND; kwire" in done.err
    assert cli("groups", "delete", group).code == 1


def test_an_open_transaction_is_shown_and_aborted(
    cli: CommandLine, names: Names, topic: str, bootstrap: str
) -> None:
    """Its records are never read as committed; its producer is fenced."""
    name = names.group("tx")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"in the transaction", partition=0)
    producer.flush()
    states = {row["id"]: row["state"] for row in cli.ok("transactions", "list", "--json").json}
    assert states[name] == "Ongoing"
    [found] = cli.ok("transactions", "describe", name, "--json").json
    assert (found["partitions"], found["state"]) == ([f"{topic}-0"], "Ongoing")
    [one] = cli.ok("transactions", "open", topic, "--json").json
    assert (one["partition"], one["start_offset"]) == (0, 5)
    begin = ("--from-beginning", "-p", "0")
    assert len(cli.consume(topic, *begin, "--read-committed")) == 5
    assert len(cli.consume(topic, *begin)) == 6
    cli.ok("transactions", "abort", name)
    assert cli.ok("transactions", "open", topic, "--json").json == []
    cli.produce(topic, "after", "-p", "0")
    assert cli.consume(topic, *begin, "--read-committed")[-1] == "after"
    assert "in the transaction" not in cli.consume(topic, *begin, "--read-committed")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        producer.commit_transaction()
    done = cli("transactions", "abort", name)
    assert (done.code, "has no open transaction" in done.err) == (1, True)
    assert cli("transactions", "describe", names.group()).code == 1
    assert cli("transactions", "abort").code == 2


def test_a_committed_offset_of_a_stock_client_is_seen(
    cli: CommandLine, names: Names, topic: str, bootstrap: str
) -> None:
    """Whoever commits, the lag is the same."""
    group = names.group()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(topic, 0)])
    next(consumer)
    consumer.commit()
    consumer.close()
    assert lags(cli, group) == {0: (1, 4)}
