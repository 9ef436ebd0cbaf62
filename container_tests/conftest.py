"""One image and one network for all tests of the container."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from container_tests import tool
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

HERE = Path(__file__).parent
MISSING = "the container is not tested: neither podman nor docker is here"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without podman and docker, one skipped test says so for all of them."""
    if not tool.command():
        mine = [item for item in items if item.path.is_relative_to(HERE)]
        for item in mine[1:]:
            items.remove(item)
        for item in mine[:1]:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@dataclass(frozen=True, slots=True)
class Container:
    """A running container of the image; its name is its host name in ``network``."""

    name: str
    network: str
    image: str
    bootstrap: str

    def wait_until_ready(self, *, starts: int = 1) -> None:
        """Until the broker has said ``starts`` times in the log that clients can connect."""
        wait_until(lambda: self.log().count(" ready: ") == starts, timeout_s=120, what=self.name)

    def log(self) -> str:
        """What the broker has logged since the container was made."""
        return tool.run("logs", self.name, may_fail=True)

    def execute(self, *command: str) -> str:
        """Run a command in the container."""
        return tool.run("exec", self.name, *command)

    def kwire_elsewhere(self, *arguments: str) -> str:
        """Run a command of kwire in another container of the network."""
        made = ["run", "--rm", "--network", self.network, "--entrypoint", "kwire", self.image]
        return tool.run(*made, *arguments, "--bootstrap-server", f"{self.name}:9092")


@pytest.fixture(scope="session")
def image() -> str:
    """The image of deploy/Containerfile."""
    return tool.build()


@pytest.fixture(scope="session")
def network() -> Iterator[str]:
    """A network in which containers find each other by name."""
    name = f"kwire-test-{os.getpid()}"
    tool.run("network", "create", name)
    yield name
    tool.run("network", "rm", name)


@contextmanager
def started(
    name: str, image: str, network: str, options: list[str], arguments: list[str]
) -> Iterator[Container]:
    """A container whose port for the host is published as docs/OPERATIONS.md says."""
    port = free_port()
    published = ["--network", network, "-p", f"127.0.0.1:{port}:19092", "--stop-timeout", "180"]
    told = ["-o", f"advertised.listeners=HOST://localhost:{port}"]
    tool.run("run", "-d", "--name", name, *published, *options, image, *(arguments or told))
    try:
        container = Container(name, network, image, f"localhost:{port}")
        container.wait_until_ready()
        yield container
    finally:
        tool.run("rm", "-f", "-v", name)


@pytest.fixture
def container(image: str, network: str) -> Iterator[Container]:
    """A container with a volume of its own."""
    with started(f"{network}-broker", image, network, [], []) as made:
        yield made
