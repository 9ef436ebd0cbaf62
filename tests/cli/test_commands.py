"""All commands: pipes, Ctrl-C, start-up, completion, what is said about a wrong command line."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import COMMANDS, INTERRUPTED, actions_of, main, make_parser
from tests.support.arguments import arguments_of, helps_of
from tests.support.in_process import running_server

KWIRE = [sys.executable, "-m", "kwire"]

NOT_LOADED = {
    *("kwire.broker", "kwire.handlers", "kwire.server", "kwire.log", "kwire.coordinator"),
    *("kwire.config.broker", "rich", "asyncio", "ssl", "http", "email", "multiprocessing"),
    *("cramjam", "lz4", "zstandard", "decimal", "tomllib", "kwire.cli.serve"),
}
"""What a command that asks a broker has no use for: milliseconds each."""

LOADED = """
import json, sys
from kwire.cli import main
code = main(sys.argv[1:])
loaded = [name for name, module in sys.modules.items() if type(module).__name__ == "module"]
found = [name for name in loaded if "__getattr__" not in vars(sys.modules[name])]
print(json.dumps([code, found]), file=sys.stderr)
"""


@pytest.fixture
async def bootstrap(tmp_path: Path):
    """The address of a broker with topic t of 1,000 records."""
    async with running_server(tmp_path) as server:
        address = f"{server.host}:{server.port}"
        path = tmp_path / "lines"
        path.write_text("".join(f"line {n}\n" for n in range(1000)), encoding="utf-8")
        await run(["produce", "t", str(path), "-q", "-b", address])
        yield address


async def run(arguments: list[str]) -> int:
    """Run a command in a thread, beside the broker."""
    return await trio.to_thread.run_sync(partial(main, arguments))


async def process(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell script in which $KWIRE is the command."""
    return await trio.run_process(
        ["bash", "-o", "pipefail", "-c", script],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        env=os.environ | {"KWIRE": " ".join(KWIRE)} | environment,
    )


async def test_a_pipe_goes_through(bootstrap: str):
    """produce reads a pipe, consume writes one; a reader that ends early is no error."""
    done = await process(
        "seq 100000 | $KWIRE produce numbers -q && "
        "$KWIRE consume numbers --from-beginning | head -2 && "
        "$KWIRE consume numbers --from-beginning --exit | sort -n | tail -1",
        KWIRE_BOOTSTRAP_SERVER=bootstrap,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"1\n2\n100000\n"


def _with_ctrl_c() -> None:
    """Take SIGINT as a terminal's foreground does: a run in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_ctrl_c_ends_a_consumer_that_has_committed_and_left(bootstrap: str):
    """Exit code 130, no trace; the group has the offset after the last printed line."""
    arguments = ["consume", "t", "-g", "g", "--from-beginning", "-b", bootstrap]
    consumer = await trio.lowlevel.open_process(
        [*KWIRE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_with_ctrl_c,
    )
    received = b""
    while received.count(b"\n") < 1000:
        received += await consumer.stdout.receive_some()
    consumer.send_signal(signal.SIGINT)
    assert await consumer.wait() == INTERRUPTED
    assert await consumer.stderr.receive_some() == b""
    await consumer.stdout.aclose()
    await consumer.stderr.aclose()
    shown = await process("$KWIRE groups describe g --json", KWIRE_BOOTSTRAP_SERVER=bootstrap)
    [group] = json.loads(shown.stdout)
    assert (group["members"], group["lag"]) == ([], 0)
    assert [row["committed"] for row in group["partitions"]] == [1000]


async def test_a_command_loads_only_what_it_needs(bootstrap: str):
    """So that it starts in a moment."""
    command = [sys.executable, "-c", LOADED, "topics", "list", "-b", bootstrap]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    code, loaded = json.loads(done.stderr)
    assert code == 0
    assert not set(loaded) & NOT_LOADED


async def test_rate_is_kept(bootstrap: str, tmp_path: Path):
    """Ten records at 1,000 a second take at least nine milliseconds, on any machine."""
    path = tmp_path / "ten"
    path.write_text("x\n" * 10, encoding="utf-8")
    started_s = trio.current_time()
    assert await run(["produce", "r", str(path), "--rate", "1000", "-q", "-b", bootstrap]) == 0
    assert trio.current_time() - started_s >= 0.009


async def test_a_tail_with_a_filter_goes_back_until_enough_is_found(
    bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In steps, and at most to the beginning."""
    monkeypatch.setattr("kwire.cli.reading.LEAST_STEP", 100)
    consume = ["consume", "t", "-b", bootstrap, "--value"]
    assert await run([*consume, "line 1.$", "--tail", "3"]) == 0
    assert capsys.readouterr().out == "line 17\nline 18\nline 19\n"
    assert await run([*consume, "line 1$", "--tail", "3"]) == 0
    assert capsys.readouterr().out == "line 1\n"


@pytest.mark.parametrize("creates", ["true", "false"])
async def test_a_topic_that_does_not_exist(tmp_path: Path, creates: str, capsys):
    """The broker creates it, or the command says how to."""
    path = tmp_path / "one"
    path.write_text("x\n", encoding="utf-8")
    settings = {"auto.create.topics.enable": creates}
    async with running_server(tmp_path / "data", settings) as server:
        address = f"{server.host}:{server.port}"
        code = await run(["produce", "new", str(path), "-b", address, "--timeout", "500ms"])
    said = capsys.readouterr().err
    if creates == "true":
        assert (code, said) == (0, "the broker has created topic new\n1 record written\n")
    else:
        assert code == 1
        assert said.endswith("the broker does not create it: kwire topics create new\n")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "serve"])
def test_every_command_and_action_explains_itself(command: str, capsys):
    """A help text for each, for every action, and for every argument of each."""
    _, commands = make_parser([command])
    parsers = [commands.choices[command]]
    while parsers:
        parser = parsers.pop()
        parser.format_help()
        for action in arguments_of(parser):
            if action.choices and hasattr(action, "add_parser"):
                parsers += action.choices.values()
                helps = helps_of(action)
                assert helps.keys() == set(action.choices)
                assert all(helps.values())
            elif action.option_strings:
                assert action.help or action.metavar == "N", f"{command}: {action.option_strings}"
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics"],
        ["topics", "create"],
        ["topics", "create", "t", "-p", "0"],
        ["groups", "reset", "g"],
        ["groups", "reset", "g", "--to-end", "--to-beginning"],
        ["consume", "t", "--tail", "1", "--from-beginning"],
        ["produce", "t", "--compression", "brotli"],
        ["configs", "describe", "quota", "x"],
        ["records", "delete", "t"],
        ["produce", "t", "-H", "name"],
        ["groups", "reset", "g", "-t", "orders:", "--to-end"],
        ["groups", "reset", "g", "-t", "orders:x", "--to-end"],
        ["transactions", "list", "--state", "Hanging"],
        ["nonsense"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys):
    """With the usage."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: kwire" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["topics", "groups", "configs", "transactions", "cluster"])
def test_a_command_without_an_action_shows_the_actions(command: str, capsys):
    """Each with its help text; so does an action that does not exist."""
    _, commands = make_parser([command])
    (actions,) = actions_of(commands.choices[command])
    for arguments in ([command], [command, "nonsense"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        said = " ".join(capsys.readouterr().err.split())
        for name, text in helps_of(actions).items():
            assert f"{name} {text}" in said


def test_an_unknown_option_of_an_action_shows_those_of_the_action(capsys):
    """Not those of the command around it."""
    with pytest.raises(SystemExit) as ended:
        main(["topics", "list", "--all"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "usage: kwire topics list [-h]" in said
    assert "unrecognized arguments: --all" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["consume", "t", "--exit", "--follow"], "--exit and --follow exclude each other"),
        (["consume", "t", "-g", "g", "--offset", "1"], "kwire groups reset moves a group"),
        (["topics", "alter", "t"], "give --set NAME=VALUE or --unset NAME"),
        (["groups", "delete-offsets", "g"], "name the topics with --topic"),
        (["transactions", "abort", "x", "--topic", "t"], "name a transactional ID, or all of"),
        (["groups", "reset", "g", "--to-time", "soon"], "--to-time soon: write 2026"),
        (["records", "delete", "t", "--before-time", "soon"], "--before-time soon: write 2026"),
        (["produce", "t", "--rate", "0"], "--rate 0 must be more than 0"),
        (["produce", "t", "--rate", "nan"], "--rate nan must be more than 0"),
        (["topics", "list", "-b", "here"], "--bootstrap-server: here is not HOST:PORT"),
        (["topics", "list", "-b", "http://x:1"], "http://x:1 is a URL: write HOST:PORT"),
        (["topics", "list", "-b", "x:1", "--cluster", "y"], "exclude each other"),
        (["consume", "t", "-g", ""], "--group must not be empty"),
        (["consume", "t", "--value", "a{99999999999}"], "a{99999999999}: "),
        (["consume", "t", "--value", "(" * 9_000 + ")" * 9_000], "recursion"),
        (["strays", "remove", "--data-dir", "d"], "name the strays to remove"),
    ],
)
def test_options_that_do_not_fit_are_one_line(arguments: list[str], said: str, capsys):
    """Before any connection is opened."""
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_completion_is_a_script(capsys, monkeypatch):
    """For each shell; without shtab it says what to install."""
    for shell in ("bash", "zsh", "tcsh"):
        assert main(["completion", shell]) == 0
        assert "add-partitions" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert (
        "needs the package shtab, which isn't installed: pip install -e '.[cli]'"
        in capsys.readouterr().err
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_without_room_is_one_line() -> None:
    """A full disk behind a redirection is an error, not a bug."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [*KWIRE, "completion", "bash"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"kwire: cannot write the output: No space left on device")
    assert ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
async def test_a_closed_stream_is_an_empty_one(bootstrap: str, closed: str) -> None:
    """Such as cron and some supervisors leave it."""
    script = f'"$@" produce t -q {closed} && "$@" topics list {closed}'
    ended = await trio.run_process(
        ["sh", "-c", script, "sh", *KWIRE],
        env=os.environ | {"KWIRE_BOOTSTRAP_SERVER": bootstrap},
        stdin=subprocess.DEVNULL,
        capture_stdout=True,
        capture_stderr=True,
    )
    assert b"Traceback" not in ended.stderr


async def test_an_interrupted_produce_says_how_much_is_written(bootstrap: str) -> None:
    """So that a script can go on from there."""
    command = [*KWIRE, "produce", "t", "-b", bootstrap]
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                command,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                check=False,
                preexec_fn=_with_ctrl_c,
            )
        )
        for offset in ("1000", "1001"):  # the first is acknowledged before the second is sent
            await process.stdin.send_all(b"a line\n")
            written = ["consume", "t", "--offset", offset, "--count", "1", "-b", bootstrap]
            assert await run(written) == 0
        process.send_signal(signal.SIGINT)
        said = b"".join([part async for part in process.stderr])
    assert process.returncode == INTERRUPTED
    assert said in (b"1 record written\n", b"2 records written\n")


async def test_names_may_follow_options(bootstrap: str, tmp_path: Path) -> None:
    """As with other programs: people add options wherever they are in the line."""
    path = tmp_path / "records"
    path.write_text('{"value": "x"}\n', encoding="utf-8")
    late = ["produce", "t", "--format", "json", str(path), "-q", "-b", bootstrap]
    assert await run(late) == 0
    assert await run(["topics", "create", "a", "-p", "1", "b", "-b", bootstrap]) == 0
    assert await run(["topics", "describe", "a", "-b", bootstrap, "b"]) == 0
    for wrong in (["topics", "list", "a", "-b", bootstrap], [*late, "--nonsense", "x"]):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)


async def test_describe_without_names_shows_all_topics(bootstrap: str, capsys) -> None:
    """In one document; the internal ones only if they are asked for, as in the list."""
    assert await run(["topics", "create", "a", "-b", bootstrap]) == 0
    assert await run(["consume", "t", "-g", "g", "--exit", "-b", bootstrap]) == 0
    capsys.readouterr()
    for options, names in (([], ["a", "t"]), (["--internal"], ["__consumer_offsets", "a", "t"])):
        assert await run(["topics", "describe", *options, "--json", "-b", bootstrap]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [topic["name"] for topic in told] == names
    assert await run(["topics", "delete", "a", "t", "-b", bootstrap]) == 0
    capsys.readouterr()
    assert await run(["topics", "describe", "-b", bootstrap]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "no topics yet: kwire topics create NAME makes one\n")


async def test_a_name_beyond_the_protocol_is_one_line(bootstrap: str, capsys) -> None:
    """Kafka's strings have at most 32,767 bytes."""
    assert await run(["groups", "describe", "x" * 40_000, "-b", bootstrap]) == 1
    assert "no room for what was given" in capsys.readouterr().err
