"""The load generator, ``load.c``, which is compiled when needed, and single requests."""

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.types import Request

SOURCE = Path(__file__).parent / "load.c"
FALLBACK = Path(__file__).parent / "load_python.py"
CORRELATION_ID = 7
FIRST_BYTES = 64 * 1024
LONGEST_WAIT_S = 120.0


class Load(NamedTuple):
    """The result of one run of the generator; names ending in ``_us`` are in microseconds."""

    requests: int
    seconds: float
    response_bytes: int
    p50_us: int
    p99_us: int
    p999_us: int
    cpu_s: float

    @property
    def requests_per_s(self) -> float:
        """Answered requests per second."""
        return self.requests / self.seconds

    @property
    def generator_share(self) -> float:
        """The part of one core that the generator used; near 1, the generator was the limit."""
        return self.cpu_s / self.seconds


class Generator(NamedTuple):
    """The generator's command, and a directory for the requests that it sends."""

    command: list[str]
    directory: Path


def new_generator(directory: Path) -> Generator:
    """The C program, compiled into ``directory``, or the Python program without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return Generator([sys.executable, str(FALLBACK)], directory)
    program = directory / "load"
    subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE)], check=True)
    return Generator([str(program)], directory)


def run_load(
    generator: Generator,
    bootstrap: str,
    frame: bytes,
    connections: int,
    in_flight: int,
    seconds: float,
) -> Load:
    """Send one request again and again for ``seconds``."""
    host, _, port = bootstrap.rpartition(":")
    file = generator.directory / "request"
    file.write_bytes(frame)
    arguments = [host, port, str(connections), str(in_flight), str(seconds), str(file)]
    run = subprocess.run(
        [*generator.command, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"the load generator ended with {run.returncode}: {run.stderr.strip()}")
    return Load(**json.loads(run.stdout))


def frame_of(request: Request, version: int) -> bytes:
    """A request in its wire format."""
    return bytes(encode_request(request, version, CORRELATION_ID, "bench"))


def connected(bootstrap: str) -> socket.socket:
    """A connection that sends small packets at once (TCP_NODELAY)."""
    host, _, port = bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=LONGEST_WAIT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(bootstrap: str, request: Request, version: int) -> Any:
    """Send one request on a new connection, and return the response."""
    with connected(bootstrap) as connection:
        connection.sendall(frame_of(request, version))
        return read_response(connection, request, version)


def read_frame(connection: socket.socket) -> bytes:
    """Read the next response; no other response may be in flight."""
    data = connection.recv(FIRST_BYTES)
    while data and (len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4])):
        if len(data) >= 4:
            return data[4:] + _exactly(connection, 4 + int.from_bytes(data[:4]) - len(data))
        data += connection.recv(FIRST_BYTES)
    if not data:
        raise ConnectionError("the broker closed the connection")
    return data[4:]


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    """Receive exactly this many more bytes."""
    buffer = memoryview(bytearray(size_bytes))
    done = 0
    while done < size_bytes:
        received = connection.recv_into(buffer[done:])
        if not received:
            raise ConnectionError("the broker closed the connection in a response")
        done += received
    return bytes(buffer)


def timed(connection: socket.socket, frame: bytes) -> tuple[float, bytes]:
    """Send a request; returns the seconds until its response is complete, and the response."""
    started = time.perf_counter()
    connection.sendall(frame)
    answer = read_frame(connection)
    return time.perf_counter() - started, answer


def decoded(frame: bytes, request: Request, version: int) -> Any:
    """Decode the response to a request that was sent."""
    response = message_classes(request.API_KEY)[1]
    _, position = decode_response_header(frame, response, version)
    return decode(response, version, memoryview(frame)[position:])


def read_response(connection: socket.socket, request: Request, version: int) -> Any:
    """Read and decode the response to a request that was sent."""
    return decoded(read_frame(connection), request, version)
