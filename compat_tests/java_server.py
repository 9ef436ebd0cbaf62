"""A JVM that stays and runs Kafka's tools, each in some milliseconds: ToolServer.java, from here.

A tool spends most of its second on loading and warming up the same thousands of classes as the one
before it. The server is compiled once, which needs a JDK.
"""

import atexit
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent / "java" / "ToolServer.java"
MAIN_CLASS = "ToolServer"
OPTIONS = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
"""The server itself runs what a tool has told Java to run in the end."""


def compiled_server(java: str, cache: Path) -> Path | None:
    """The directory of the compiled server; None where this Java has no compiler."""
    javac = shutil.which(str(Path(java).resolve().parent / "javac")) or shutil.which("javac")
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    directory = cache / f"server-{name}"
    if directory.exists() or javac is None:
        return directory if directory.exists() else None
    with tempfile.TemporaryDirectory(dir=cache) as made:
        classes = Path(made) / "classes"
        subprocess.run([javac, "--release", "17", "-d", classes, SOURCE], check=True)
        try:
            classes.rename(directory)
        except OSError:  # another process was faster
            assert directory.exists()
    return directory


class ToolServer:
    """The JVM, from its first tool to the end of this process."""

    def __init__(self, command: Sequence[str]) -> None:
        self.environment = os.environ.get("JAVA_TOOL_OPTIONS")
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
        """Whether it runs, with the properties that a JVM would have that is started now."""
        environment = os.environ.get("JAVA_TOOL_OPTIONS")
        return self._process.poll() is None and self.environment == environment

    def run(
        self, main_class: str, arguments: Sequence[str], stdin: str, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end; TimeoutError, and the JVM is gone, when it takes too long."""
        printed: dict[bytes, list[bytes]] = {b"o": [], b"e": [], b"x": []}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(self._address)
            connection.sendall(_request(main_class, arguments, stdin))
            try:
                for kind, content in _frames(connection):
                    printed[kind].append(content)
            except TimeoutError:
                self.close()
                raise
        out, errors = (b"".join(printed[kind]).decode() for kind in (b"o", b"e"))
        # One that ends without a word has ended the JVM by itself.
        ended = [int.from_bytes(code) for code in printed[b"x"]] or [self._process.wait(timeout_s)]
        return subprocess.CompletedProcess([main_class, *arguments], ended[0], out, errors)

    def close(self) -> None:
        """End the JVM, with what runs in it."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()


def _request(main_class: str, arguments: Sequence[str], stdin: str) -> bytes:
    texts = [text.encode() for text in (main_class, *arguments)]
    parts = [len(text).to_bytes(4) + text for text in (*texts, stdin.encode())]
    return len(texts).to_bytes(4) + b"".join(parts)


def _frames(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    with connection.makefile("rb") as file:
        while kind := file.read(1):
            yield kind, file.read(int.from_bytes(file.read(4)))
