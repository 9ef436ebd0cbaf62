"""Which cluster a command talks to: options, environment, the file with named clusters."""

from pathlib import Path

import pytest

from kwire.cli.profiles import ProfileError, find_profile, parse_addresses

FILE = """
default = "local"
[clusters.local]
bootstrap-server = "127.0.0.1:9093"
[clusters.far]
bootstrap-server = ["a:1", "[::1]:2"]
client-id = "me"
command-config = "far.properties"
[clusters.wrong]
bootstrap-servers = "a:1"
[clusters.empty]
client-id = "me"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment whose profile file is FILE."""
    path = tmp_path / "kwire" / "config.toml"
    path.parent.mkdir()
    path.write_text(FILE, encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_first_place_that_names_a_cluster_counts(environment: dict[str, str]) -> None:
    """Options, then the environment, then the file, then this machine."""
    both = environment | {"KWIRE_BOOTSTRAP_SERVER": "e:1", "KWIRE_CLUSTER": "far"}
    assert find_profile("o:1", None, None, both).addresses == [("o", 1)]
    assert find_profile(None, "local", None, both).addresses == [("127.0.0.1", 9093)]
    assert find_profile(None, None, None, both).addresses == [("e", 1)]
    only_name = environment | {"KWIRE_CLUSTER": "far"}
    assert find_profile(None, None, None, only_name)[:2] == ([("a", 1), ("::1", 2)], "me")
    assert find_profile(None, None, None, environment).addresses == [("127.0.0.1", 9093)]
    nowhere = {"KWIRE_CONFIG": "/nowhere"}
    assert find_profile(None, None, None, nowhere).addresses == [("127.0.0.1", 9092)]


def test_the_first_file_of_client_properties_counts(environment: dict[str, str]) -> None:
    """The option's, then the environment's, then that of the named cluster."""
    both = environment | {"KWIRE_COMMAND_CONFIG": "e.properties"}
    assert find_profile(None, "far", "o.properties", both).command_config == "o.properties"
    assert find_profile(None, "far", None, both).command_config == "e.properties"
    assert find_profile(None, "far", None, environment).command_config == "far.properties"
    assert find_profile(None, None, None, environment).command_config is None


@pytest.mark.parametrize(
    ("bootstrap", "cluster", "said"),
    [
        ("a:1", "local", "exclude each other"),
        (None, "lokal", "there is no cluster lokal in .*it has: empty, far, local, wrong"),
        (
            None,
            "wrong",
            "bootstrap-servers is unknown; it takes bootstrap-server, client-id, command-config",
        ),
        (None, "empty", "bootstrap-server is missing"),
        ("9092", None, "9092 is not HOST:PORT"),
        ("a:1,b:", None, "b: is not HOST:PORT"),
    ],
)
def test_a_mistake_is_named(
    environment: dict[str, str], bootstrap: str | None, cluster: str | None, said: str
) -> None:
    """With the file, and with what may stand there."""
    with pytest.raises(ProfileError, match=said):
        find_profile(bootstrap, cluster, None, environment)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("defualt = 1", "defualt is unknown; it takes default and clusters"),
        ("[", "config.toml: "),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: str, said: str) -> None:
    """A misspelt key doesn't go unnoticed."""
    path = tmp_path / "config.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ProfileError, match=said):
        find_profile(None, None, None, {"KWIRE_CONFIG": str(path)})


@pytest.mark.parametrize("port", ["0", "65536", "-1", "²", ""])
def test_a_port_that_nobody_listens_on(port: str) -> None:
    """A client needs a number from 1 to 65535."""
    with pytest.raises(ProfileError):
        parse_addresses(f"h:{port}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("clusters = 3", "write a cluster as a table"),
        ("[clusters]\nlocal = 3", "write a cluster as a table"),
        ("[clusters.local]\nbootstrap-server = 5", "bootstrap-server: 5 is not HOST:PORT"),
        ("[clusters.local]\nbootstrap-server = []", "an empty address is not HOST:PORT"),
        ("default = 5", "default must be the name of a cluster"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(tmp_path: Path, content: str, said: str) -> None:
    """With the file and the key."""
    path = tmp_path / "config.toml"
    path.write_text(content, encoding="utf-8")
    name = None if content.startswith("default") else "local"
    with pytest.raises(ProfileError, match=said) as raised:
        find_profile(None, name, None, {"KWIRE_CONFIG": str(path)})
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("text", ["http://h:8080", "http://h:8080/topics", "PLAINTEXT://h:8080"])
def test_a_url_is_no_bootstrap_server(text: str) -> None:
    """The line says what to write: the host and the port alone."""
    with pytest.raises(ProfileError, match=r"is a URL: write HOST:PORT without .*, as in h:8080$"):
        find_profile(text, None)


@pytest.mark.parametrize(
    ("text", "host"), [("h", "h"), ("[::1]", "::1"), ("::1", "::1"), ("127.0.0.1", "127.0.0.1")]
)
def test_an_address_without_a_port_has_kafkas(text: str, host: str) -> None:
    """9092 is everybody's default; beside it others have their own."""
    assert parse_addresses(f"{text},h:1") == [(host, 9092), ("h", 1)]
