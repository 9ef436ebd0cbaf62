"""All commands: pipes, Ctrl-C, start-up, completion, what is said about a wrong command line."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import INTERRUPTED, main
from kwire.cli.commands import COMMANDS
from kwire.cli.parsing import actions_of, make_parser, parse
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
        await run(["produce", "t", str(path), "-q", "--create", "-b", address])
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
        "seq 100000 | $KWIRE produce numbers -q --create && "
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
    options = ["--rate", "1000", "-q", "--create", "-b", bootstrap]
    assert await run(["produce", "r", str(path), *options]) == 0
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
async def test_only_create_makes_a_topic(tmp_path: Path, creates: str, capsys) -> None:
    """Whatever the broker's clients may do; a mistyped name is told the right one."""
    path = tmp_path / "one"
    path.write_text("x\n", encoding="utf-8")
    settings = {"auto.create.topics.enable": creates}
    async with running_server(tmp_path / "data", settings) as server:
        address = ["-b", f"{server.host}:{server.port}"]
        assert await run(["produce", "orders", str(path), *address]) == 1
        said = capsys.readouterr().err
        assert said == ("kwire: there is no topic orders; kwire topics create orders makes one\n")
        assert await run(["produce", "orders", str(path), "--create", *address]) == 0
        assert capsys.readouterr().err == "created topic orders\n1 record written\n"
        assert await run(["topics", "create", "__orders_of_no_one", *address]) == 0
        for command in (
            ["produce", "ordes", os.devnull],
            ["consume", "ordes", "--exit"],
            ["topics", "describe", "ordes"],
            ["topics", "delete", "ordes"],
            ["topics", "alter", "ordes", "--set", "retention.ms=1"],
            ["configs", "set", "topic", "ordes", "retention.ms=1"],
            ["records", "delete", "ordes", "--before-offset", "1"],
        ):
            capsys.readouterr()
            assert await run([*command, *address]) == 1
            said = capsys.readouterr().err
            assert said == "kwire: there is no topic ordes: did you mean orders?\n"
        assert await run(["topics", "list", *address]) == 0
    assert "ordes" not in capsys.readouterr().out


async def test_a_reader_that_ends_ends_consume_at_once(bootstrap: str) -> None:
    """Although no further record comes, and so nothing is written; its group has no member then."""
    command = [*KWIRE, "consume", "t", "-g", "g", "--from-beginning", "-b", bootstrap]
    consumer = await trio.lowlevel.open_process(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    received = b""
    while received.count(b"\n") < 1000:
        received += await consumer.stdout.receive_some()
    await consumer.stdout.aclose()
    assert await consumer.wait() == 0
    assert await consumer.stderr.receive_some() == b""
    await consumer.stderr.aclose()
    shown = await process("$KWIRE groups list --json", KWIRE_BOOTSTRAP_SERVER=bootstrap)
    [group] = json.loads(shown.stdout)
    assert (group["members"], group["lag"]) == (0, 0)


async def test_a_tail_never_breaks_the_order_of_a_partition(bootstrap: str, tmp_path: Path, capsys):
    """Also where times run backward; what it shows of a partition are its newest offsets."""
    lines = {0: (50, 10, 40, 20), 1: (30, 35)}
    path = tmp_path / "records"
    path.write_text(
        "".join(
            json.dumps({"value": str(at), "timestamp": at, "partition": partition}) + "\n"
            for partition, times in lines.items()
            for at in times
        ),
        encoding="utf-8",
    )
    assert await run(["topics", "create", "times", "-p", "2", "-b", bootstrap]) == 0
    await run(["produce", "times", str(path), "--format", "json", "-q", "-b", bootstrap])
    for most, shown in (("2", "40 20"), ("3", "35 40 20"), ("5", "35 50 10 40 20"), ("0", "")):
        capsys.readouterr()
        assert await run(["consume", "times", "--tail", most, "-b", bootstrap]) == 0
        assert capsys.readouterr().out.split() == shown.split()


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
async def test_no_color(bootstrap: str, environment: dict[str, str]) -> None:
    """At a terminal a table has bold titles, unless the user wants none."""
    reading, terminal = pty.openpty()
    try:
        await trio.run_process(
            [*KWIRE, "topics", "list", "-b", bootstrap],
            stdout=terminal,
            env={**os.environ, "TERM": "xterm", **environment},
        )
        shown = os.read(reading, 10_000)
    finally:
        os.close(reading)
        os.close(terminal)
    assert b"TOPIC" in shown
    assert (b"\x1b[" in shown) is not bool(environment)


async def test_a_config_that_does_not_exist(bootstrap: str, capsys) -> None:
    """Is told the one that was probably meant, whichever command was given it."""
    guess = "retention.msx: did you mean retention.ms?\n"
    for command in (
        ["topics", "create", "new", "--config", "retention.msx=1"],
        ["topics", "alter", "t", "--set", "retention.msx=1"],
        ["configs", "set", "topic", "t", "retention.msx=1"],
        ["configs", "describe", "topic", "t", "retention.msx"],
    ):
        assert await run([*command, "-b", bootstrap]) == 1
        assert capsys.readouterr().err.endswith(guess)


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
    """With one line, or with the actions that a command has."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 or arguments == ["topics"], said


@pytest.mark.parametrize("command", ["topics", "groups", "configs", "transactions", "cluster"])
def test_a_command_without_an_action_shows_the_actions(command: str, capsys):
    """Each with its help text."""
    _, commands = make_parser([command])
    (actions,) = actions_of(commands.choices[command])
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    for name, text in helps_of(actions).items():
        assert f"{name} {text}" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("topic lst", "kwire: there is no command topic: did you mean kwire topics list?"),
        ("-b h:1 topic lst", "kwire: there is no command topic: did you mean kwire topics list?"),
        ("topic -b h:1 lst", "kwire: there is no command topic: did you mean kwire topics list?"),
        ("prodce x", "kwire: there is no command prodce: did you mean kwire produce?"),
        ("nonsense", "kwire: there is no command nonsense; kwire --help lists the commands"),
        ("topics lst", "kwire topics: there is no action lst: did you mean list?"),
        ("topics list --jsn", "kwire topics list: there is no option --jsn: did you mean --json?"),
        ("groups reset g --to-begining", "there is no option --to-begining: did you mean --to-b"),
        ("topics list --all", "there is no option --all; kwire topics list --help lists the op"),
        ("topics list x", "kwire topics list: too many words: x; kwire topics list --help shows"),
        ("configs set topc t a=b", "kwire configs set: TYPE topc is unknown: did you mean topic?"),
        ("produce t -z zst", "kwire produce: -z/--compression zst is unknown: did you mean zstd?"),
        ("topics create", "required: TOPIC; kwire topics create --help shows how"),
    ],
)
def test_a_mistyped_word_is_one_line_with_what_was_meant(line: str, said: str, capsys) -> None:
    """And exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("-b h:1 topics list", "topics list -b h:1"),
        ("--timeout 5 topics --json list", "topics list --json --timeout 5"),
        ("topics -b h list --json", "topics list -b h --json"),
        ("--bootstrap-server=h consume topics", "consume --bootstrap-server=h topics"),
        ("--cluster health topics list", "topics list --cluster health"),
        ("-q produce t f", "produce -q t f"),
        ("--http :80 serve", "serve --http :80"),
    ],
)
def test_options_may_come_first(line: str, means: str) -> None:
    """Before the command, and before the action."""
    assert parse(line.split()) == parse(means.split())


@pytest.mark.parametrize("line", [[], ["--help"], ["help"], ["help", "topics"], ["-h", "topics"]])
def test_help_has_sections_and_examples(line: list[str], capsys) -> None:
    """The one about all commands imports none; without a command it is an error."""
    with pytest.raises(SystemExit) as ended:
        main(line)
    told = capsys.readouterr()
    assert ended.value.code == (0 if line else 2)
    examples = COMMANDS["topics"].examples if "topics" in line else ("seq 1000 | kwire produce",)
    assert all(f"\n  {one}" in told.out + told.err for one in examples)
    if "topics" not in line:
        assert all(f"\n  {name} " in told.out + told.err for name in COMMANDS)


def test_help_about_all_commands_imports_none() -> None:
    """So that it comes in a moment, however many commands there are."""
    script = """
import sys
from kwire.cli import main
try:
    main(["--help"])
finally:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert not {row.module for row in COMMANDS.values()} & set(done.stderr.split())


@pytest.mark.parametrize("example", [one for row in COMMANDS.values() for one in row.examples])
def test_an_example_is_a_command_line(example: str) -> None:
    """With the options of today."""
    words = shlex.split(example.rpartition("|")[2].partition(" <")[0])
    assert words[0] == "kwire"
    try:
        parse(words[1:])
    except SystemExit as ended:
        assert ended.code == 0  # noqa: PT017
        assert words[-1] == "--help"


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
        (["topics", "list", "-b", "here:"], "--bootstrap-server: here: is not HOST:PORT"),
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
    for shell in ("bash", "zsh", "fish", "tcsh"):
        assert main(["completion", shell]) == 0
        assert "add-partitions" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert (
        "needs the package shtab, which isn't installed: pip install -e '.[cli]'"
        in capsys.readouterr().err
    )


async def test_bash_completes_names(bootstrap: str) -> None:
    """Of the cluster that the line names; never one that bash would carry out."""
    for group in ("gold", "goods", "g$(reboot)"):
        await run(["consume", "t", "--group", group, "--exit", "-b", bootstrap])
    expected = {
        f"kwire -b {bootstrap} consume ": "t",
        f"kwire topics create -b {bootstrap} ": "",
        f"kwire groups describe -b {bootstrap} g": "gold goods",
        f"kwire consume -b {bootstrap} --group goo": "goods",
        "kwire consume -b 127.0.0.1:1 ": "",
    }
    asked = "".join(
        f"""
        COMP_LINE={shlex.quote(line)}
        read -ra COMP_WORDS <<< "$COMP_LINE"
        [[ $COMP_LINE != *" " ]] || COMP_WORDS+=("")
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
        _shtab_kwire 2>/dev/null
        echo ${{COMPREPLY[@]}}
        """
        for line in expected
    )
    function = f'kwire() {{ {shlex.join(KWIRE)} "$@"; }}'
    done = await process(f'{function}; eval "$(kwire completion bash)"; {asked}')
    assert done.stdout.decode().split("\n")[:-1] == list(expected.values())


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_ask_for_names(shell: str, capsys) -> None:
    """With the command that bash uses."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "kwire completion topics" in script
    assert "kwire completion groups" in script


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
