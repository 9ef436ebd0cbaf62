"""Runs commands of ``kwire`` in this process, and keeps what they print."""

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from kwire.cli import main


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.out.splitlines()


class CommandLine:
    """The command line for one broker."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory

    def __call__(self, *arguments: str) -> Done:
        """Run a command; options of the cluster are added."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            code = main([*arguments, "--bootstrap-server", self._bootstrap])
        finally:
            sys.stdout, sys.stderr = before
            for stream in (out, err):
                stream.flush()
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return Done(code, *texts)

    def ok(self, *arguments: str) -> Done:
        """Run a command that has to succeed."""
        done = self(*arguments)
        assert done.code == 0, done
        return done

    def produce(self, topic: str, content: str | bytes, *options: str) -> Done:
        """Run ``kwire produce`` with a file of this content."""
        path = self._directory / "input"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self("produce", topic, str(path), *options)

    def consume(self, topic: str, *options: str) -> list[str]:
        """The lines of ``kwire consume`` to the present end."""
        return self.ok("consume", topic, "--exit", *options).lines
