"""``kwire share``: what it shows of a queue, and how it changes its offsets."""

import json
import re
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import main
from kwire.cli.share_views import show_share_partitions
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.share_group import join_share_group
from tests.support.share_member import ACCEPT, REJECT, RELEASE, acquired

run = partial(trio.to_thread.run_sync, main)


@pytest.fixture
async def server(tmp_path: Path):
    """A running broker with the topic ``jobs``."""
    short_locks = {"group.share.min.record.lock.duration.ms": "1000"}
    async with running_server(tmp_path, short_locks) as running:
        await running.topic("jobs")
        yield running


@pytest.fixture
def bootstrap(server) -> list[str]:
    """The options that name the broker."""
    return ["-b", f"{server.host}:{server.port}"]


async def test_no_share_groups(bootstrap, capsys):
    """It is said that there are none, and that a group of another name isn't there."""
    assert await run(["share", "list", *bootstrap]) == 0
    assert "no share groups yet" in capsys.readouterr().err
    assert await run(["share", "describe", "queue", *bootstrap]) == 1
    assert "GROUP_ID_NOT_FOUND; kwire groups list" in capsys.readouterr().err


async def test_a_queue_is_shown_with_its_records(server, bootstrap, capsys):
    """Who has which records, for how long, and how often they were delivered."""
    member = await join_share_group(server, "queue", "jobs")
    await server.produce("jobs", *(b"%d" % n for n in range(5)))
    await member.fetch(max_records=3, mode=1)
    await member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
    assert await run(["share", "list", *bootstrap]) == 0
    assert re.search(r"queue +Stable +1 +4\n", capsys.readouterr().out)
    assert await run(["share", "describe", "queue", "--records", "--json", *bootstrap]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["in_flight"] == [
        {
            "topic": "jobs",
            "partition": 0,
            "start": 1,
            "end": 5,
            "waiting": 3,
            "acquired": 1,
            "redelivered": 1,
            "acknowledged": 0,
            "archived": 0,
        }
    ]
    waiting, held = found["records"]
    assert (waiting["first"], waiting["state"], waiting["deliveries"]) == (1, "available", 1)
    assert waiting["member"] is None
    assert (held["first"], held["state"], held["deliveries"]) == (2, "acquired", 1)
    assert (held["member"], held["client"]) == ("worker-1", "raw")
    assert held["held_s"] >= 0
    assert await run(["share", "describe", "queue", "--records", *bootstrap]) == 0
    assert re.search(r"jobs +0 +2 +2 +acquired +1 +raw +worker-1 ", capsys.readouterr().out)
    assert await run(["share", "describe", "queue", "--members", *bootstrap]) == 0
    assert re.search(r"worker-1 +raw +/127.0.0.1 +jobs-0\n", capsys.readouterr().out)
    await member.client.aclose()


async def test_offsets_are_set_and_deleted_with_a_plan(server, bootstrap, capsys):
    """A dry run changes nothing; a group with members isn't changed at all."""
    member = await join_share_group(server, "queue", "jobs")
    await server.produce("jobs", *(b"%d" % n for n in range(5)))
    await member.fetch(max_records=3)
    for command in (["reset", "queue", "--to-end"], ["delete-offsets", "queue", "jobs"]):
        assert await run(["share", *command, *bootstrap]) == 1
        assert "group queue has 1 member: stop them first" in capsys.readouterr().err
    await member.leave()
    reset = ["share", "reset", "queue", "--to-offset", "4", *bootstrap]
    assert await run([*reset, "--dry-run"]) == 0
    assert capsys.readouterr().out == "would set jobs-0 from 0 to 4\n"
    assert await run(reset) == 0
    told = capsys.readouterr()
    assert told.err == "plan: set jobs-0 from 0 to 4\n"
    assert told.out == "done: set jobs-0 from 0 to 4\n"
    assert await run(["share", "describe", "queue", "--json", *bootstrap]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert [(row["start"], row["lag"]) for row in found["partitions"]] == [(4, 1)]
    forget = ["share", "delete-offsets", "queue", "jobs", "--json", *bootstrap]
    assert await run(forget) == 0
    [done] = json.loads(capsys.readouterr().out)
    assert (done["name"], done["ok"]) == ("jobs", True)
    assert await run(["share", "describe", "queue", "--json", *bootstrap]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["partitions"] == []


async def test_a_group_of_another_type(server, bootstrap, capsys):
    """It is said which command takes it."""
    await server.commit("billing", "jobs", 0)
    assert await run(["share", "describe", "billing", *bootstrap]) == 1
    assert "billing is a classic group: kwire groups takes it" in capsys.readouterr().err


async def configure(server, name: str, value: str) -> None:
    """Set a config of the group ``queue``."""
    bootstrap = f"{server.host}:{server.port}"
    assert await run(["configs", "set", "group", "queue", f"{name}={value}", "-b", bootstrap]) == 0


async def test_a_queue_is_printed_once(server, bootstrap, capfdbinary):
    """Printed records are accepted; each member gets others."""
    await server.produce("jobs", *(b"%d" % n for n in range(5)))
    await configure(server, "share.auto.offset.reset", "earliest")
    capfdbinary.readouterr()
    consume = ["share", "consume", "jobs", "--group", "queue", *bootstrap]
    assert await run([*consume, "--count", "2"]) == 0
    assert capfdbinary.readouterr().out == b"0\n1\n"
    assert await run([*consume, "--exit"]) == 0
    assert capfdbinary.readouterr().out == b"2\n3\n4\n"
    assert await run([*consume, "--exit"]) == 0
    assert capfdbinary.readouterr().out == b""


async def test_a_new_group_says_that_it_begins_at_the_end(server, bootstrap, capsys):
    """With the command that has it read from the start; a topic without records is not named."""
    await server.topic("empty")
    await server.produce("jobs", b"0", b"1")
    consume = ["share", "consume", "jobs", "empty", "--group", "queue", "--exit", *bootstrap]
    assert await run(consume) == 0
    found = capsys.readouterr()
    assert found.out == ""
    assert "kwire: queue begins at the end of jobs; to read from the start, end its" in found.err
    reset = found.err.strip().split("run: kwire ")[1].split()
    assert await run([*reset, "--yes", *bootstrap]) == 0
    capsys.readouterr()
    assert await run(consume) == 0
    assert "begins at the end" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("members", "why"), [([], "no member reads"), ([{}], "nothing has been read yet")]
)
def test_a_queue_without_records_in_memory(members, why, capsys):
    """That its members read nothing yet is something else than that there are none."""
    show_share_partitions({"members": members, "in_flight": [], "records": [], "has_more": False})
    assert why in capsys.readouterr().err


async def test_a_member_that_is_to_end_leaves_its_group(server, bootstrap, capsys):
    """After SIGTERM, as after Ctrl-C: others need not wait for its session to end."""

    async def members() -> int:
        await run(["share", "list", "--json", *bootstrap])
        return sum(row["members"] for row in json.loads(capsys.readouterr().out))

    command = [sys.executable, "-m", "kwire", "share", "consume", "jobs", "-g", "queue", *bootstrap]
    ending = await trio.lowlevel.open_process(command)
    try:
        with trio.fail_after(30):
            while not await members():
                pass  # each look asks the broker
    finally:
        ending.terminate()
    assert await ending.wait() == 128 + signal.SIGTERM
    assert await members() == 0


async def test_a_command_decides_by_its_exit_code(server, bootstrap, tmp_path, capfd):
    """0 accepts, 65 rejects, anything else releases: the record comes again, and is counted."""
    await server.produce("jobs", b"good", b"bad", b"later")
    await configure(server, "share.auto.offset.reset", "earliest")
    script = tmp_path / "work.sh"
    script.write_text(
        """value=$(cat)
echo "$KWIRE_TOPIC-$KWIRE_PARTITION $KWIRE_OFFSET $KWIRE_DELIVERY $value"
case $value in
    good) exit 0 ;;
    bad) exit 65 ;;
    *) [ $KWIRE_DELIVERY -gt 2 ] && exit 0 || kill -9 $$ ;;
esac
"""
    )
    capfd.readouterr()
    consume = ["share", "consume", "jobs", "--group", "queue", "--exit", *bootstrap]
    assert await run([*consume, "--exec", f"sh {script}"]) == 0
    told = capfd.readouterr()
    assert told.out.splitlines() == [
        "jobs-0 0 1 good",
        "jobs-0 1 1 bad",
        "jobs-0 2 1 later",
        "jobs-0 2 2 later",
        "jobs-0 2 3 later",
    ]
    assert told.err.endswith("kwire: 2 accepted, 2 released, 1 rejected\n")


async def test_commands_run_side_by_side(server, bootstrap, tmp_path, capfd):
    """Each of two waits for the other."""
    await server.produce("jobs", b"one", b"two")
    await configure(server, "share.auto.offset.reset", "earliest")
    capfd.readouterr()
    both = f"[ -e {tmp_path}/0 ] && [ -e {tmp_path}/1 ]"
    meeting = f"touch {tmp_path}/$KWIRE_OFFSET; until {both}; do :; done"
    consume = ["share", "consume", "jobs", "--group", "queue", "-n", "2", *bootstrap]
    assert await run([*consume, "--workers", "2", "--exec", meeting]) == 0
    assert capfd.readouterr().err == "kwire: 2 accepted, 0 released, 0 rejected\n"


async def test_a_command_that_is_not_there_uses_up_no_delivery(server, bootstrap, capfd):
    """It ends the program, and the record is available as if it hadn't been delivered."""
    await server.produce("jobs", b"one")
    await configure(server, "share.auto.offset.reset", "earliest")
    capfd.readouterr()
    consume = ["share", "consume", "jobs", "--group", "queue", *bootstrap]
    assert await run([*consume, "--exec", "no-such-command 2> /dev/null"]) == 1
    assert "the shell can't run it (exit code 127)" in capfd.readouterr().err
    assert await run([*consume, "-n", "1", "--exec", "echo $KWIRE_DELIVERY"]) == 0
    assert capfd.readouterr().out == "1\n"


async def test_a_record_whose_lock_has_ended_is_told(server, bootstrap, tmp_path, capfd):
    """The command took too long: another member may have the record by now."""
    await server.produce("jobs", b"one")
    await configure(server, "share.auto.offset.reset", "earliest")
    capfd.readouterr()
    (tmp_path / "gate").touch()
    work = f"touch {tmp_path}/begun; while [ -e {tmp_path}/gate ]; do :; done"
    consume = ["share", "consume", "jobs", "--group", "queue", "-n", "1", *bootstrap]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, [*consume, "--exec", work])
        await until(lambda: (tmp_path / "begun").exists())
        server.broker.share_partitions.end_locks("queue")
        (tmp_path / "gate").unlink()
    told = capfd.readouterr().err
    assert "jobs-0 offset 0 will be delivered again" in told
    assert "kwire: 0 accepted" in told


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--group", ""], "--group must not be empty"),
        (["--group", "q", "--workers", "2"], "--workers is for --exec"),
        (["--group", "q", "--workers", "65", "--exec", "cat"], "at most 64 commands"),
    ],
)
def test_a_wrong_command_line(options, why, capsys):
    assert main(["share", "consume", "jobs", *options]) == 2
    assert why in capsys.readouterr().err


async def test_a_lock_is_renewed_while_its_command_runs(server, bootstrap, tmp_path, capfd):
    """The command takes longer than the lock, and the record comes to nobody else."""
    await server.produce("jobs", b"one")
    await configure(server, "share.auto.offset.reset", "earliest")
    await configure(server, "share.record.lock.duration.ms", "1000")
    capfd.readouterr()
    (tmp_path / "gate").touch()
    work = f"touch {tmp_path}/begun; while [ -e {tmp_path}/gate ]; do sleep 0.05; done"
    consume = ["share", "consume", "jobs", "--group", "queue", "-n", "1", *bootstrap]

    def deadline_ms() -> int:
        [served] = server.broker.share_partitions.loaded_of("queue")
        [run] = served.share.runs
        assert run.count == 1
        return run.deadline_ms

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, [*consume, "--exec", work])
        await until(lambda: (tmp_path / "begun").exists())
        first_ms = deadline_ms()
        await until(lambda: server.broker.share_partitions.now_ms() > first_ms)
        assert deadline_ms() > first_ms
        (tmp_path / "gate").unlink()
    assert capfd.readouterr().err == "kwire: 1 accepted, 0 released, 0 rejected\n"


async def test_a_lock_that_may_not_be_renewed_is_told_once(server, bootstrap, tmp_path, capfd):
    """The record is another worker's after the lock, as without renewals."""
    await server.produce("jobs", b"one")
    await configure(server, "share.auto.offset.reset", "earliest")
    await configure(server, "share.record.lock.duration.ms", "1000")
    await configure(server, "share.renew.acknowledge.enable", "false")
    capfd.readouterr()
    told = ""

    def is_told() -> bool:
        nonlocal told
        told += capfd.readouterr().err
        return "can't be renewed" in told

    (tmp_path / "gate").touch()
    work = f"while [ -e {tmp_path}/gate ]; do sleep 0.05; done"
    consume = ["share", "consume", "jobs", "--group", "queue", "-n", "1", *bootstrap]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, [*consume, "--exec", work])
        await until(is_told)
        (tmp_path / "gate").unlink()
    told += capfd.readouterr().err
    assert told.count("can't be renewed") == 1


async def make_dead(server, *values: bytes, **configs: str) -> None:
    """Have the group ``queue`` reject all records that are written now."""
    for name, value in ({"topic.name": "dlq.jobs"} | configs).items():
        await configure(server, f"errors.deadletterqueue.{name}", value)
    if "dlq.jobs" not in server.broker.image.topics_by_name:
        await server.topic("dlq.jobs", **{"errors.deadletterqueue.group.enable": "true"})
    member = await join_share_group(server, "queue", "jobs")
    await server.produce("jobs", *((b"k", value) for value in values), headers=(("h", b"x"),))
    letters = server.broker.share_partitions.dead_letters
    before = letters.written
    [(first, last, _)] = acquired(await member.fetch(wait_ms=5000))
    await member.acknowledge({0: [(first, last, [REJECT])]})
    await until(lambda: letters.written == before + len(values))
    await member.leave()


async def test_dead_letters_are_shown_and_sent_again_once(server, bootstrap, capsys):
    """One has a copy; the other is read from its topic."""
    await make_dead(server, b"one", **{"copy.record.enable": "true"})
    await make_dead(server, b"two", **{"copy.record.enable": "false"})
    capsys.readouterr()
    show = ["share", "dead-letters", "queue", *bootstrap]
    assert await run([*show, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("jobs", 0, 0),
        ("jobs", 0, 1),
    ]
    assert [(row["cause"], row["deliveries"]) for row in rows] == [("rejected", 1)] * 2
    assert [(row["copy"], row["replayed"]) for row in rows] == [(True, False), (False, False)]
    assert await run([*show, "--replay", "--dry-run"]) == 0
    assert capsys.readouterr().out == "would send 2 records to jobs\n"
    assert await server.end_offset("jobs") == 2
    assert await run([*show, "--replay"]) == 0
    told = capsys.readouterr()
    assert (told.err, told.out) == (
        "plan: send 2 records to jobs\n",
        "done: sent 2 records to jobs\n",
    )
    again = [one for one in await server.records("jobs") if one.offset > 1]
    assert [(one.key, one.value) for one in again] == [(b"k", b"one"), (b"k", b"two")]
    assert [one.headers for one in again] == [
        (("h", b"x"), ("kwire.source", b"jobs/0/%d" % offset)) for offset in (0, 1)
    ]
    assert await run(show) == 0
    assert re.search(r"jobs +0 +0 +rejected +1 +yes +yes\n", capsys.readouterr().out)
    assert await run([*show, "--replay"]) == 0
    assert "send nothing: no dead letter is left" in capsys.readouterr().err


async def test_a_record_that_nobody_has_is_not_sent(server, bootstrap, capsys):
    """Its topic was created again meanwhile: another record has its offset."""
    await make_dead(server, b"one", b"two")
    await server.delete_topic("jobs")
    await server.topic("jobs")
    late_ms = server.broker.now_ms() + 1000
    await server.produce("jobs", b"another", timestamp=late_ms)
    capsys.readouterr()
    show = ["share", "dead-letters", "queue", *bootstrap]
    assert await run([*show, "--replay", "--to", "jobs"]) == 1
    told = capsys.readouterr()
    assert told.out == "done: sent 0 records to jobs\n"
    assert "2 of the records have no copy, and their topic doesn't have them any more" in told.err
    assert await server.end_offset("jobs") == 1


async def test_a_group_without_dead_letters(server, bootstrap, capsys):
    """It is said what to do for some."""
    assert await run(["share", "dead-letters", "queue", *bootstrap]) == 1
    assert "has no topic for dead letters: kwire configs set" in capsys.readouterr().err
    await server.topic("dlq.jobs")
    assert await run(["share", "dead-letters", "queue", "--topic", "dlq.jobs", *bootstrap]) == 0
    assert "group queue has no dead letters in dlq.jobs" in capsys.readouterr().err
    assert await run(["share", "dead-letters", "queue", "--to", "jobs", *bootstrap]) == 2
    assert "--to is for --replay" in capsys.readouterr().err
