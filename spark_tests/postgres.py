"""A PostgreSQL of its own for a test, and Debezium's connectors for it on Kafka Connect."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compat_tests.java_tools import MissingTool, apicurio_libs, connect_command, debezium_libs
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

TIMEOUT_S = 120.0
_USER = "shop"
_CONNECT = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def _program(name: str) -> str:
    """A program of PostgreSQL; Debian has them in no directory of PATH. MissingTool."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(versions[-1]) if versions else None)
    if found is None:
        raise MissingTool(
            "the test of Debezium needs PostgreSQL (Debian, Ubuntu: apt install postgresql;"
            " macOS: brew install postgresql)"
        )
    return found


class Postgres:
    """A running server with logical replication; its database is ``postgres``."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, sql: str) -> str:
        """What statements print, without headings; each is a transaction of its own."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", _USER, "-d", "postgres"]
        command += ["-qAtX", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        run = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A new server on 127.0.0.1, which ends with the block; MissingTool."""
    initdb, server, port = _program("initdb"), _program("postgres"), free_port()
    # It refuses to run as root, so there it runs as the user that comes with its package.
    user = "postgres" if os.geteuid() == 0 else None
    # Where that user gets to: not below TMPDIR, which may be this user's alone.
    place = Path(tempfile.mkdtemp(prefix="kwire-postgres-", dir="/tmp"))
    try:
        if user:
            os.chown(place, pwd.getpwnam(user).pw_uid, -1)
        data = str(place / "data")
        made = [initdb, "-D", data, "-U", _USER, "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run([*made, "--locale=C"], user=user, cwd=place, check=True, capture_output=True)
        settings = {"listen_addresses": "127.0.0.1", "port": port, "wal_level": "logical"}
        settings |= {"fsync": "off", "unix_socket_directories": place, "shared_buffers": "16MB"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [server, "-D", data, *options], user=user, cwd=place, stdout=log, stderr=log
            )
            try:
                found = Postgres(port)
                wait_until(lambda: _answers(found), timeout_s=TIMEOUT_S, what="PostgreSQL")
                yield found
            finally:
                process.terminate()
                process.wait(TIMEOUT_S)
    finally:
        shutil.rmtree(place)


def _answers(server: Postgres) -> bool:
    ready = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(server.port)]
    return subprocess.run(ready, check=False).returncode == 0


@contextmanager
def debezium(
    broker: str, database: Postgres, place: Path, connectors: Mapping[str, Mapping[str, str]]
) -> Iterator[None]:
    """A worker of Kafka Connect with Debezium's connectors; it is killed when the block ends.

    ``connectors`` are the settings by name. Keys and values are JSON with its schemas, if these
    settings don't say otherwise. A worker with the same ``place`` goes on where the last one was;
    what that one had written, but not noted, is written again.
    """
    text = "org.apache.kafka.connect.json.JsonConverter"
    of_worker = {
        "bootstrap.servers": broker,
        "key.converter": text,
        "value.converter": text,
        "offset.storage.file.filename": str(place / "offsets"),
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "plugin.discovery": "service_load",
    }
    of_database = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": _USER,
        "database.password": "none",
        "database.dbname": "postgres",
    }
    files = []
    of_files = {name: {"name": name, **of_database, **one} for name, one in connectors.items()}
    for name, values in {"worker": of_worker, **of_files}.items():
        files.append(str(place / name))
        lines = (f"{key}={value}\n" for key, value in values.items())
        (place / name).write_text("".join(lines), encoding="utf-8")
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = connect_command(main, *files, options=_CONNECT)
    at = command.index("-cp") + 1
    command[at] += f":{debezium_libs()}/*:{apicurio_libs()}/*"
    with (place / "connect.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait(TIMEOUT_S)
