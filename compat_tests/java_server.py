"""A JVM that stays and runs Kafka's tools, each in some milliseconds: ToolServer.java, from here.

A tool spends most of its second on loading and warming up the same thousands of classes as the one
before it. The server is compiled once, which needs a JDK.
"""

import atexit
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

SOURCE = Path(__file__).parent / "java" / "ToolServer.java"
MAIN_CLASS = "ToolServer"
OPTIONS = ("-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED")
"""The server itself runs what a tool has told Java to run in the end."""


def compiled_server(java: str, cache: Path) -> Path | None:
    """The directory of the compiled server; None where no compiler for this Java is there."""
    javac = shutil.which(str(Path(java).resolve().parent / "javac")) or shutil.which("javac")
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    directory = cache / f"server-{name}"
    if directory.exists() or javac is None:
        return directory if directory.exists() else None
    with tempfile.TemporaryDirectory(dir=cache) as made:
        classes = Path(made) / "classes"
        compile_it = [javac, "--release", "17", "-d", classes, SOURCE]
        if subprocess.run(compile_it, capture_output=True, check=False).returncode:
            return None
        try:
            classes.rename(directory)
        except OSError:  # another process was faster
            assert directory.exists()
    return directory


class ToolServer:
    """The JVM, from its first tool to the end of this process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._surroundings = _surroundings()
        self._directory = tempfile.TemporaryDirectory(prefix="java")
        self._address = f"{self._directory.name}/socket"
        self._log = Path(self._directory.name) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, self._address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self.log()
        atexit.register(self.close)

    def log(self) -> str:
        """What the JVM itself, and threads of no tool, have said."""
        return self._log.read_text(errors="replace")

    def is_usable(self) -> bool:
        """Whether it runs, in the directory and with the properties of a JVM that starts now."""
        return self._process.poll() is None and self._surroundings == _surroundings()

    def run(
        self, main_class: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end; TimeoutError, and the JVM is gone, when it takes too long."""
        printed: dict[bytes, list[bytes]] = {b"o": [], b"e": [], b"x": []}
        with self._asked(main_class, arguments, stdin) as connection:
            is_late = threading.Event()

            def cut() -> None:
                is_late.set()
                connection.shutdown(socket.SHUT_RDWR)

            deadline = threading.Timer(timeout_s, cut)
            deadline.start()
            try:
                for kind, content in _frames(connection):
                    printed[kind].append(content)
            finally:
                deadline.cancel()
                deadline.join()
        if is_late.is_set():
            self.close()
            raise TimeoutError(f"{main_class} still ran after {timeout_s} s")
        out, errors = (b"".join(printed[kind]).decode() for kind in (b"o", b"e"))
        # One that ends without a word has ended the JVM by itself.
        ended = [int.from_bytes(code) for code in printed[b"x"]] or [self._process.wait(timeout_s)]
        return subprocess.CompletedProcess([main_class, *arguments], ended[0], out, errors)

    def start(self, main_class: str, arguments: Sequence[str]) -> "HostedTool":
        """Start a tool that runs beside the test."""
        return HostedTool(self._asked(main_class, arguments, ""))

    def _asked(self, main_class: str, arguments: Sequence[str], stdin: str) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        texts = [text.encode() for text in (main_class, *arguments)]
        parts = [len(text).to_bytes(4) + text for text in (*texts, stdin.encode())]
        connection.sendall(len(texts).to_bytes(4) + b"".join(parts))
        return connection

    def close(self) -> None:
        """End the JVM, with what runs in it."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()


def _surroundings() -> tuple[str, str | None]:
    return os.getcwd(), os.environ.get("JAVA_TOOL_OPTIONS")


class HostedTool:
    """A tool that runs on in the JVM, with what ``subprocess.Popen`` has: its stdout, its end.

    Like a process it waits, and other tools with it, while nobody reads what it prints.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        reading, writing = os.pipe()
        self.stdout: IO[str] | None = open(reading, encoding="utf-8")  # noqa: SIM115
        self._code = -signal.SIGKILL
        self._thread = threading.Thread(target=self._pass_on, args=[writing], daemon=True)
        self._thread.start()

    def _pass_on(self, pipe: int) -> None:
        with self._connection, open(pipe, "wb", buffering=0) as out:
            for kind, content in _frames(self._connection):
                if kind == b"o":
                    with suppress(BrokenPipeError):
                        out.write(content)
                elif kind == b"x":
                    self._code = int.from_bytes(content)

    def poll(self) -> int | None:
        """None while it runs; then its exit code, as after SIGKILL if nobody heard of its end."""
        return None if self._thread.is_alive() else self._code

    def terminate(self) -> None:
        """Tell it to end in order."""
        with suppress(OSError):
            self._connection.send(b"t")

    def kill(self) -> None:
        """Forget it: it ends in order, but nobody waits."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"the tool still runs after {timeout_s} s")


def _frames(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    with connection.makefile("rb") as file:
        while kind := file.read(1):
            yield kind, file.read(int.from_bytes(file.read(4)))
