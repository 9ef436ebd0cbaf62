"""The lines of the log look as Python's own would."""

import io
import json
import logging
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from compat_tests.raw_client import RawConnection
from kwire.cli.log_file import LogFile
from kwire.cli.log_lines import (
    AUTHORIZER,
    LOGINS,
    MAX_MESSAGE_CHARACTERS,
    MAX_TRACEBACK_CHARACTERS,
    MAX_TRACEBACK_LINES,
    MOST_PER_SECOND,
    JsonFormatter,
    LineFormatter,
    Sparing,
    begin_audit,
)
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.testing.process import BrokerFailed, BrokerProcess

PYTHONS = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
PYTHONS.default_msec_format = f"%s.%03d{time.strftime('%z')[:3]}:{time.strftime('%z')[3:]}"


def record(created: float, message: str, *args: object) -> logging.LogRecord:
    """What the formatter is given."""
    made = logging.LogRecord("kwire.x", logging.INFO, "", 0, message, args, None)
    made.created, made.msecs = created, (created - int(created)) * 1000
    return made


def test_a_line_is_that_of_pythons_formatter_with_the_offset_from_utc() -> None:
    """Second after second, with and without arguments."""
    lines = LineFormatter()
    for created in (1_700_000_000.0, 1_700_000_000.9994, 1_700_000_001.25, 1_700_000_000.5):
        for made in (record(created, "a %s", "b"), record(created, "100%")):
            assert lines.format(made) == PYTHONS.format(made)


def test_a_traceback_follows_on_lines_of_its_own() -> None:
    """An exception is written as Python writes it, but for the indentation."""
    made = record(1_700_000_000.0, "broken")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    first, *more = PYTHONS.format(made).splitlines()
    assert LineFormatter().format(made).splitlines() == [first, *(f"    {line}" for line in more)]


FORGED = "x\n2026-01-31 12:00:00,123 ERROR kwire.log: the disk is lost\r\x1b[2J\u2028\x85y"


def test_no_client_can_forge_a_line() -> None:
    """Control characters of a name or of an exception's text are escaped or stay indented."""
    (line,) = LineFormatter().format(record(1_700_000_000.0, "group %s", FORGED)).splitlines()
    assert line.isprintable()
    made = record(1_700_000_000.0, "broken")
    try:
        raise ValueError(FORGED)
    except ValueError:
        made.exc_info = sys.exc_info()
    _, *more = LineFormatter().format(made).split("\n")
    assert more
    assert all(line.startswith("    ") and line.isprintable() for line in more)


def test_a_long_message_is_cut() -> None:
    """A group id of 32 KB takes a thousand characters of the log."""
    line = LineFormatter().format(record(1_700_000_000.0, "group %s", "g" * 32_000))
    assert len(line) < MAX_MESSAGE_CHARACTERS + 150
    assert line.endswith("… (31006 more characters)")


@pytest.mark.parametrize("text", ["\n" * 1_000_000, "x" * 1_000_000, "\x1b\n" * 500_000])
def test_a_long_traceback_is_cut(text: str) -> None:
    """An exception's text may come from a client; the end of the traceback stays."""
    made = record(1_700_000_000.0, "broken")
    try:
        try:
            raise ValueError(text)
        except ValueError as error:
            raise KeyError("why") from error
    except KeyError:
        made.exc_info = sys.exc_info()
    line = LineFormatter().format(made)
    assert line.count("\n") < MAX_TRACEBACK_LINES + 5
    assert len(line) < 6 * MAX_TRACEBACK_CHARACTERS
    assert line.endswith("    KeyError: 'why'")
    exception = json.loads(JsonFormatter().format(made))["exception"]
    assert len(exception) < MAX_TRACEBACK_CHARACTERS + 100
    assert exception.endswith("KeyError: 'why'")


def test_long_fields_are_cut() -> None:
    """Those of the audit log have names of clients."""
    made = record(1_700_000_000.0, "denied")
    made.fields = {"topic": "t" * 1_000_000, "count": 3}
    found = json.loads(JsonFormatter().format(made))
    assert found["count"] == 3
    assert len(found["topic"]) < MAX_MESSAGE_CHARACTERS + 50


def test_a_kind_of_message_is_written_so_many_times_a_second() -> None:
    """The others are counted, other kinds are not held back, and the next second is a new one."""
    sparing = Sparing()
    flood = [sparing.filter(record(1_700_000_000.5, "group %s", n)) for n in range(1000)]
    assert sum(flood) == MOST_PER_SECOND
    assert sparing.filter(record(1_700_000_000.6, "something else"))
    after = record(1_700_000_001.0, "group %s", "g")
    assert sparing.filter(after)
    assert after.getMessage() == "group g (800 messages before this were left out)"


def test_a_logger_writes_such_lines() -> None:
    """Through a handler, the end of the line included."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter())
    handler.handle(record(1_700_000_000.0, "hello"))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.000[+-]\d\d:\d\d INFO kwire.x: hello\n", out.getvalue()
    )


def test_the_offset_from_utc_is_that_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summer and winter have their own; a reader needs no knowledge of the machine's zone."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        lines = LineFormatter()
        winter = lines.format(record(1_767_268_800.5, "x"))
        summer = lines.format(record(1_782_907_200.25, "x"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert winter.startswith("2026-01-01 13:00:00.500+01:00 INFO")
    assert summer.startswith("2026-07-01 14:00:00.250+02:00 INFO")


def test_a_json_line_holds_the_message_and_its_traceback() -> None:
    """One line for each message, whatever a client has put into it."""
    made = record(1_700_000_000.0, "group %s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        made.exc_info = sys.exc_info()
    (line,) = JsonFormatter().format(made).splitlines()
    told = json.loads(line)
    assert told["message"] == f"group {FORGED}"
    assert (told["level"], told["logger"]) == ("INFO", "kwire.x")
    assert told["exception"].startswith("Traceback")
    assert told["time"] == LineFormatter().time_of(made)
    assert len(json.loads(JsonFormatter().format(record(1.0, "g" * 9000)))["message"]) < 1100


def test_a_full_file_is_put_aside(tmp_path: Path) -> None:
    """The newest lines are in the file, older ones in FILE.1 and FILE.2; the oldest are gone."""
    path = tmp_path / "kwire.log"
    file = LogFile(str(path), 1000, 2)
    file.setFormatter(LineFormatter())
    for number in range(100):
        file.handle(record(1_700_000_000.0, "number %d", number))
    file.close()
    assert path.read_text().splitlines()[-1].endswith("number 99")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "kwire.log",
        "kwire.log.1",
        "kwire.log.2",
    ]
    assert all(one.stat().st_size <= 1000 for one in tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker goes on."""
    file = LogFile(str(tmp_path / "kwire.log"), 1000, 1)
    file.setFormatter(LineFormatter())
    file.stream.close()
    for _ in range(3):
        file.handle(record(1_700_000_000.0, "x"))
    assert capsys.readouterr().err.count("log lines are lost") == 1


def test_a_file_that_cannot_be_renamed_gets_all_lines(tmp_path: Path, capsys: Any) -> None:
    """Standard error says so once; a file that can be renamed again is."""
    path, older = tmp_path / "kwire.log", tmp_path / "kwire.log.1"
    file = LogFile(str(path), 200, 1)
    file.setFormatter(LineFormatter())
    older.mkdir()
    for number in range(20):
        file.handle(record(1_700_000_000.0, f"line {number}"))
    lines = path.read_text().splitlines()
    assert [line.rpartition("line ")[2] for line in lines] == [str(n) for n in range(20)]
    said = capsys.readouterr().err
    assert (said.count("kwire.log cannot be renamed, so it grows on"), said.count("\n")) == (1, 1)
    older.rmdir()
    for number in range(20, 30):
        file.handle(record(1_700_000_000.0, f"line {number}"))
    file.close()
    assert older.is_file()
    assert path.read_text().endswith("line 29\n")


def test_messages_of_other_threads_do_not_disturb_the_count() -> None:
    """A thread may log a new message while another one counts those of the last second."""
    sparing = Sparing()
    written: list[bool] = []
    others: list[threading.Thread] = []

    class Message(str):
        """Another thread logs the same whenever this message is looked up among the others."""

        def __hash__(self) -> int:
            late = record(1_700_000_000.0, "x")
            others.append(threading.Thread(target=lambda: written.append(sparing.filter(late))))
            others[-1].start()
            others[-1].join(0.2)  # it waits for this one to end, unless nothing keeps it
            return super().__hash__()

    for _ in range(MOST_PER_SECOND - 2):
        assert sparing.filter(record(1_700_000_000.0, "x"))
    written.append(sparing.filter(record(1_700_000_000.0, Message("x"))))
    for other in others:
        other.join()
    assert len(others) == 2
    assert sorted(written) == [False, True, True]


def test_a_broker_logs_its_clean_stop_to_the_file(tmp_path: Path) -> None:
    """In the form that was asked for, and nothing of it on standard error."""
    path = tmp_path / "kwire.log"
    options = ("--log-file", str(path), "--log-format", "json")
    broker = BrokerProcess(tmp_path / "data", options=options)
    with broker:
        assert broker.stop() == 0
    assert broker.log() == ""
    [line] = path.read_text().splitlines()
    told = json.loads(line)
    assert told["message"].startswith("stopped cleanly in ")
    assert told["level"] == "INFO"


def test_a_file_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    """One line that names it."""
    options = ("--log-file", str(tmp_path / "missing" / "kwire.log"))
    with pytest.raises(BrokerFailed, match=r"kwire\.log: cannot write to it: No such file"):
        BrokerProcess(tmp_path / "data", options=options).start()


def test_the_audit_log_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Who is denied something is told there, and what is allowed if that is wanted; no line of it
    is in the log, and the files rotate like that of the log.
    """
    path = tmp_path / "audit.log"
    options = ("--audit-log-file", str(path), "--audit-allowed", "--log-format", "json")
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    with BrokerProcess(tmp_path / "data", settings, options=options) as broker:
        connection = RawConnection(broker.bootstrap)
        denied = CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1)])
        connection.ask(denied, 7)
        connection.close()
        assert broker.stop() == 0
    assert "orders" not in broker.log()
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert {one["logger"] for one in told} == {"kwire.authorizer"}
    assert [one["is_allowed"] for one in told if one["resource_name"] == "orders"] == [False]


@pytest.mark.parametrize("logger", [AUTHORIZER, LOGINS])
def test_the_limits_of_the_audit_log_are_its_own(logger: str) -> None:
    """The filter for all lines doesn't count them: it couldn't tell one client from another."""
    sparing = Sparing()
    made = record(1_700_000_000.5, "Principal = %s")
    made.name = logger
    assert all(sparing.filter(made) for _ in range(2 * MOST_PER_SECOND))


def test_the_audit_log_of_a_worker_replaces_the_supervisors(tmp_path: Path) -> None:
    """Each line is in one file."""
    files = [LogFile(str(tmp_path / name), 1000, 2) for name in ("audit", "audit.worker.1")]
    like = logging.StreamHandler()
    like.setFormatter(LineFormatter())
    audit = logging.getLogger(AUTHORIZER)
    try:
        for file in files:
            begin_audit(file, like)
        audit.warning("denied")
    finally:
        for name in (AUTHORIZER, LOGINS):
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
        for file in files:
            file.close()
    assert [len(Path(file.baseFilename).read_text().splitlines()) for file in files] == [0, 1]


def test_lines_of_a_worker_name_it() -> None:
    """After the level in text, as a field in JSON; others have neither."""
    made = record(1_700_000_000.0, "a %s", "b")
    assert LineFormatter(2).format(made).endswith(" INFO worker 2 kwire.x: a b")
    assert json.loads(JsonFormatter(2).format(made))["worker"] == 2
    assert "worker" not in json.loads(JsonFormatter().format(made))
