"""The command line: what it prints, and the one line it says when it can't start."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from kwire import __version__
from kwire.cli import INTERRUPTED, main, process_tuning, serve
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.housekeeping import StorageLost
from kwire.server import Server
from kwire.testing.process import BrokerFailed, BrokerProcess


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kwire to its end."""
    command = [sys.executable, "-m", "kwire", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_version() -> None:
    """--version names it."""
    assert run("--version").stdout == f"kwire {__version__}\n"


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("num.partitions=0", ("num.partitions", "0", "at least 1")),
        ("num.partitions=many", ("num.partitions", "many", "whole number")),
        ("compression.type=brotli", ("compression.type", "brotli", "one of")),
        ("listeners=here", ("listeners", "here", "NAME://host:port")),
        ("listeners=PLAINTEXT://127.0.0.1:99999", ("listeners", "99999", "0 to 65535")),
        ("listeners=PLAINTEXT://*:0", ("listeners", "*:0", "every interface: PLAINTEXT://:0")),
        ("listeners=SSL://:9093", ("listener.name.ssl.", "SSL", "needs a certificate")),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, setting: str, parts: tuple[str, ...]) -> None:
    """The setting, the value and what is allowed, in one line, and exit code 1."""
    done = run("serve", "--data-dir", str(tmp_path), "-o", setting)
    assert done.returncode == 1
    [line] = done.stderr.strip().splitlines()
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("nonsense", ("nonsense", "NAME=VALUE")),
        ("=4", ("-o =4", "NAME=VALUE")),
        ("log.dirs=elsewhere", ("--data-dir", "log.dirs", "leave one of them out")),
        ("log.dir=elsewhere", ("--data-dir", "log.dir", "leave one of them out")),
    ],
)
def test_a_setting_that_is_written_wrongly_is_exit_code_2(
    setting: str, parts: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """As for every wrong command line."""
    assert main(["serve", "--data-dir", "d", "-o", setting]) == 2
    [line] = capsys.readouterr().err.splitlines()
    for part in parts:
        assert part in line


@pytest.mark.parametrize("address", ["here", "here:", "127.0.0.1", "[::1]", "::1:9", "://h:9"])
def test_an_address_without_a_port_is_named(address: str) -> None:
    """What to write instead, in one line, and exit code 2."""
    done = run("serve", "--listen", address)
    assert done.returncode == 2
    assert done.stderr == (
        f"kwire: --listen {address}: write it as HOST:PORT or NAME://HOST:PORT, for instance "
        "127.0.0.1:9092, [::1]:9092 or PLAINTEXT://:9092\n"
    )


def _listeners_of(texts: list[str], given: dict[str, str]) -> list[tuple[str, str, int]]:
    """What --listen makes of these."""
    config = BrokerConfig.load({**given, **serve.listener_settings(texts, given)})
    assert {config.security_protocol(found.name) for found in config.listeners()} == {"PLAINTEXT"}
    return [tuple(found) for found in config.listeners()]


@pytest.mark.parametrize(
    ("texts", "listeners"),
    [
        (["127.0.0.1:9092"], [("PLAINTEXT", "127.0.0.1", 9092)]),
        ([":9092"], [("PLAINTEXT", "", 9092)]),
        (["*:9092"], [("PLAINTEXT", "", 9092)]),
        (["[::1]:9092"], [("PLAINTEXT", "::1", 9092)]),
        (["PLAINTEXT://localhost:9092"], [("PLAINTEXT", "localhost", 9092)]),
        (["PLAINTEXT://:9092"], [("PLAINTEXT", "", 9092)]),
        (["inside://[::1]:1"], [("INSIDE", "::1", 1)]),
        (
            ["h:1", "PLAINTEXT://h:2", "h:3"],
            [("PLAINTEXT1", "h", 1), ("PLAINTEXT", "h", 2), ("PLAINTEXT2", "h", 3)],
        ),
    ],
)
def test_listen_is_written_in_many_ways(
    texts: list[str], listeners: list[tuple[str, str, int]]
) -> None:
    """As HOST:PORT, or as Kafka writes a listener; ``*`` is what people try for every interface."""
    assert _listeners_of(texts, {}) == listeners


def test_a_listener_whose_name_is_a_protocol_is_not_made_plain() -> None:
    """SSL:// without a map is SSL, which needs a certificate; with a map it is what that says."""
    with pytest.raises(ConfigError, match="the listener SSL is SSL and needs a certificate"):
        _listeners_of(["SSL://:9093"], {})
    mapped = {"listener.security.protocol.map": "SSL:PLAINTEXT"}
    assert _listeners_of(["SSL://:9093"], mapped) == [("SSL", "", 9093)]


@pytest.mark.parametrize("port", ["99999", "-1", "abc"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    """What is wrong is the port, and not how it is written."""
    done = run("serve", "--listen", f"127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (
        2,
        f"kwire: --listen 127.0.0.1:{port}: the port {port} must be a number from 0 to 65535\n",
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--listen", ":0", "-o", "listeners=PLAINTEXT://:0"), ("--listen", "listeners")),
        (("--data-dir", "x", "--data-dir", "y"), ("--data-dir", "x and y")),
        (("--config", "x", "--config", "y"), ("--config", "x and y")),
    ],
)
def test_nothing_is_said_twice(arguments: tuple[str, ...], named: tuple[str, ...]) -> None:
    """One of the two would win without a word."""
    done = run("serve", *arguments)
    assert (done.returncode, "leave one of them out" in done.stderr) == (2, True)
    for part in named:
        assert part in done.stderr


def test_a_protocol_without_what_it_needs_is_refused_with_listen_too(tmp_path: Path) -> None:
    """--listen says where; the map still says how."""
    options = ("--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    done = run("serve", *options, "-o", "listener.security.protocol.map=PLAINTEXT:SASL_SSL")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "the listener PLAINTEXT is SASL_SSL and needs a certificate" in line


def test_help_names_the_defaults() -> None:
    """What is served where, without any option."""
    said = " ".join(run("serve", "--help").stdout.split()).replace("kwire- data", "kwire-data")
    assert "keeps its data in ./kwire-data and listens on 127.0.0.1:9092" in said


def test_an_unknown_option_shows_those_of_the_command() -> None:
    """One line says where they are."""
    done = run("serve", "--port", "9093")
    assert done.returncode == 2
    assert done.stderr == (
        "kwire serve: there is no option --port; kwire serve --help lists the options\n"
    )


def test_an_unknown_setting_warns(tmp_path: Path) -> None:
    """It is ignored, with a hint at the name that was meant."""
    with BrokerProcess(tmp_path, {"num.partitons": "3"}) as broker:
        assert "did you mean num.partitions" in broker.log()


def test_an_unknown_line_of_a_file_is_found(tmp_path: Path) -> None:
    """The warning names file and line."""
    config = tmp_path / "server.properties"
    config.write_text("node.id=1\ngarbage line\n", encoding="utf-8")
    done = run("serve", "--config", str(config), "--data-dir", str(config))
    assert f"{config}, line 2: setting garbage is unknown" in done.stderr


def test_a_properties_file(tmp_path: Path) -> None:
    """A server.properties of a real Kafka serves, its controller's listener left out."""
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@localhost:9093\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093\n"
        "controller.listener.names=CONTROLLER\nnum.partitions=oops\n",
        encoding="utf-8",
    )
    done = run("serve", "--config", str(config), "--data-dir", str(tmp_path / "data"))
    assert done.stderr.startswith(f"kwire: {config}, line 6: Invalid value oops for configuration")
    assert "num.partitions" in done.stderr
    given = ("--data-dir", str(tmp_path / "data"), "-o", "num.partitions=none")
    of_command_line = run("serve", "--config", str(config), *given)
    assert of_command_line.stderr.startswith("kwire: Invalid value none for configuration")
    config.write_bytes(b"num.partitions=1\ngarbage line\nlog.dirs=\xff\n")
    latin = run("serve", "--config", str(config))
    assert latin.stderr == f"kwire: cannot read {config}: line 3 is not UTF-8\n"
    missing = run("serve", "--config", str(tmp_path / "nothing"))
    assert (missing.returncode, "cannot read" in missing.stderr) == (1, True)


def test_a_bad_value_of_a_setting_with_two_names_is_found(tmp_path: Path) -> None:
    """broker.id is the older name of node.id: the line with the one that was used is named."""
    config = tmp_path / "server.properties"
    config.write_text("# ours\nbroker.id=one\n", encoding="utf-8")
    done = run("serve", "--config", str(config))
    assert done.stderr.startswith(f"kwire: {config}, line 2: Invalid value one for configuration")


def test_a_directory_around_that_of_a_broker_warns(tmp_path: Path) -> None:
    """A broker that starts empty, one level above its data, says so in one line."""
    with BrokerProcess(tmp_path / "kafka-logs") as below:
        assert "starts empty" not in below.log()
    with BrokerProcess(tmp_path) as above:
        [line] = [line for line in above.log().splitlines() if "starts empty" in line]
    assert f"--data-dir {tmp_path / 'kafka-logs'} " in line
    with BrokerProcess(tmp_path) as known:
        assert line not in known.log().splitlines()[1:], "it is a data directory now"
        assert known.log().count("starts empty") == 0


def test_a_data_directory_in_use(tmp_path: Path) -> None:
    """The second broker says so and leaves; the first one goes on."""
    with BrokerProcess(tmp_path) as first:
        with pytest.raises(BrokerFailed, match="in use by another process"):
            BrokerProcess(tmp_path).start()
        assert first.pid


def test_a_port_in_use(tmp_path: Path) -> None:
    """It is named, with what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BrokerFailed, match=f"cannot listen on 127.0.0.1:{port}"):
            BrokerProcess(tmp_path, listen=f"127.0.0.1:{port}").start()


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    """A data directory that can't be made is one line, without the way that led there."""
    path = tmp_path / "file"
    path.write_text("", encoding="utf-8")
    done = run("serve", "--data-dir", str(path / "data"), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert "cannot use any data directory" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    around = str(tmp_path / "elsewhere" / ".." / "file")
    done = run("serve", "--data-dir", around, "--listen", "127.0.0.1:0")
    assert f"cannot use any data directory: {path}: it is not a directory;" in done.stderr


def test_another_nodes_directory(tmp_path: Path) -> None:
    """A directory that belongs to another node id isn't touched."""
    with BrokerProcess(tmp_path, {"node.id": "3"}):
        pass
    with pytest.raises(BrokerFailed, match=r"belongs to node\.id 3"):
        BrokerProcess(tmp_path).start()


def test_a_clean_stop_and_start_keep_everything(tmp_path: Path) -> None:
    """SIGTERM ends it with 0; the cluster keeps its id."""
    broker = BrokerProcess(tmp_path).start()
    cluster_id = broker.cluster_id
    assert broker.stop() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with BrokerProcess(tmp_path) as again:
        assert again.cluster_id == cluster_id


def test_a_server_that_ends_says_why_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason, not the nurseries around it: the last data directory has failed."""

    async def lose_storage(server: Server, task_status: object) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)

    async def fail() -> None:
        raise StorageLost("every data directory has failed")

    monkeypatch.setattr(Server, "serve", lose_storage)
    assert main(["serve", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "kwire: every data directory has failed\n"


@pytest.mark.parametrize("signals", [[signal.SIGINT] * 3, [signal.SIGTERM, signal.SIGINT] * 2])
def test_who_asks_for_the_end_again_changes_nothing(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    """It ends as cleanly, and says no more."""
    command = [sys.executable, "-m", "kwire", "serve", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for number in signals:
            process.send_signal(number)
        said = process.communicate()[1]
    [line] = said.splitlines()
    assert (process.returncode, "stopped cleanly in" in line) == (0, True)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


LATE = """
import signal, sys
from kwire.cli import main, process_tuning

end_process = process_tuning.end_process

def end_late(code):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.raise_signal(number)
    end_process(code)

process_tuning.end_process = end_late
sys.exit(main(["serve", "--listen", "127.0.0.1:0", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_asks_again_when_it_has_already_stopped_changes_nothing(
    tmp_path: Path, workers: str
) -> None:
    """Until the process is gone, a signal finds nobody who would end it in another way."""
    command = [sys.executable, "-c", LATE, "--data-dir", str(tmp_path), "--workers", workers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.communicate()
    assert process.returncode == 0


@pytest.mark.usefixtures("hangups_count")
def test_a_terminal_that_is_closed_stops_it_cleanly(tmp_path: Path) -> None:
    """SIGHUP is a clean stop, with a word on why."""
    command = [sys.executable, "-m", "kwire", "serve", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        said = process.communicate()[1]
    assert process.returncode == 0
    assert "stopping: the terminal was closed (SIGHUP)" in said
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.usefixtures("hangups_count")
def test_nohup_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was started to ignore SIGHUP goes on when the terminal is closed."""
    assert signal.SIGHUP in process_tuning.ending_signals()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert process_tuning.ending_signals() == [signal.SIGTERM, signal.SIGINT]
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_early_ctrl_c_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the broker takes care of it; the exit code is that of shells."""

    def run(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(trio, "run", run)
    assert main(["serve"]) == INTERRUPTED == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("listen", "settings", "expected"),
    [
        ("127.0.0.1:0", {}, 0),
        ("*:0", {}, 1),
        ("*:0", {"kwire.network.trusted": "true"}, 0),
    ],
)
def test_a_broker_that_is_open_to_the_network_warns_once(
    tmp_path: Path, listen: str, settings: dict[str, str], expected: int
) -> None:
    """Unless its operator says that the network is trusted."""
    with BrokerProcess(tmp_path, settings, listen=listen) as broker:
        port = broker.bootstrap.rpartition(":")[2]
        broker.stop()
        said = [line for line in broker.log().splitlines() if "password" in line]
    assert len(said) == expected
    assert all(f"on 0.0.0.0:{port} kwire asks nobody for a password" in line for line in said)


@pytest.mark.parametrize("http", ["0.0.0.0:0", ":0"])
def test_an_http_port_that_is_open_to_the_network_warns_once(tmp_path: Path, http: str) -> None:
    """Also if Kafka's clients reach the broker from this machine only."""
    with BrokerProcess(tmp_path, options=["--http", http]) as broker:
        url = broker.http
        broker.stop()
        said = [line for line in broker.log().splitlines() if "password" in line]
    assert url.startswith("http://0.0.0.0:")
    assert len(said) == 1
    assert f"on {url} kwire asks nobody for a password" in said[0]
