"""Finds the cluster for a command: by options, environment, and a file with named clusters.

The file is ``$XDG_CONFIG_HOME/kwire/config.toml``, by default ``~/.config/kwire/config.toml``; the
variable ``KWIRE_CONFIG`` names another one::

    default = "local"

    [clusters.local]
    bootstrap-server = "127.0.0.1:9092"

    [clusters.staging]
    bootstrap-server = ["broker-1:9092", "broker-2:9092"]
    client-id = "me"
    command-config = "/home/me/staging.properties"

Rules:

- The first of these that is given counts: ``--bootstrap-server``, ``--cluster``,
  ``KWIRE_BOOTSTRAP_SERVER``, ``KWIRE_CLUSTER``, the file's ``default``, 127.0.0.1:9092.
- ``command-config`` is a file of Kafka's client properties, for listeners with TLS or a login.
  ``--command-config`` counts first, then ``KWIRE_COMMAND_CONFIG``.
- An unknown key in the file is an error, so that a misspelled key doesn't go unnoticed.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_DEFAULT_CLIENT_ID = "kwire"
_DEFAULT_PORT = 9092
_LAST_PORT = 65535
_KEYS = {"bootstrap-server", "client-id", "command-config"}


class ProfileError(Exception):
    """The profile file or an address is wrong; the text says how to correct it."""


class WrongOption(ProfileError):
    """``--bootstrap-server`` or ``--cluster`` can't be used, whatever the file says."""


class Profile(NamedTuple):
    """A cluster that commands can talk to."""

    addresses: list[tuple[str, int]]
    client_id: str = _DEFAULT_CLIENT_ID
    command_config: str | None = None
    is_named: bool = True
    """False if nothing named the cluster, so that its addresses are a guess."""


def profile_file(environment: Mapping[str, str]) -> Path:
    """The path of the profile file, whether it exists or not."""
    given = environment.get("KWIRE_CONFIG")
    if given:
        return Path(given)
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "kwire" / "config.toml"


def find_profile(
    bootstrap: str | None,
    cluster: str | None,
    command_config: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Profile:
    """The cluster to talk to, by the three options and the environment; ProfileError."""
    found = _find_cluster(bootstrap, cluster, environment)
    given = command_config or environment.get("KWIRE_COMMAND_CONFIG")
    return found._replace(command_config=given) if given else found


def _find_cluster(
    bootstrap: str | None, cluster: str | None, environment: Mapping[str, str]
) -> Profile:
    if bootstrap and cluster:
        raise WrongOption("--bootstrap-server and --cluster exclude each other: leave one out")
    if bootstrap:
        try:
            return Profile(parse_addresses(bootstrap))
        except ProfileError as error:
            raise WrongOption(f"--bootstrap-server: {error}") from error
    if not cluster:
        bootstrap = environment.get("KWIRE_BOOTSTRAP_SERVER")
        if bootstrap:
            return Profile(parse_addresses(bootstrap))
        cluster = environment.get("KWIRE_CLUSTER")
    return _named(cluster, profile_file(environment))


def _named(cluster: str | None, path: Path) -> Profile:
    """The cluster with a name, or the default one."""
    content = _read(path)
    known = content.get("clusters", {})
    if not isinstance(known, dict) or not all(isinstance(one, dict) for one in known.values()):
        raise ProfileError(f"{path}: write a cluster as a table, [clusters.NAME]")
    name = cluster or content.get("default")
    if name is None:
        return Profile(parse_addresses(DEFAULT_BOOTSTRAP), is_named=False)
    if not isinstance(name, str):
        raise ProfileError(f'{path}: default must be the name of a cluster, "{name}"')
    if name not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ProfileError(f"there is no cluster {name} in {path}; it has: {names}")
    entry = known[name]
    unknown = sorted(set(entry) - _KEYS)
    if unknown or "bootstrap-server" not in entry:
        wrong = f"{unknown[0]} is unknown" if unknown else "bootstrap-server is missing"
        raise ProfileError(f"{path}, cluster {name}: {wrong}; it takes {', '.join(sorted(_KEYS))}")
    servers = entry["bootstrap-server"]
    text = ",".join(map(str, servers)) if isinstance(servers, list) else str(servers)
    try:
        addresses = parse_addresses(text)
    except ProfileError as error:
        raise ProfileError(f"{path}, cluster {name}: bootstrap-server: {error}") from error
    command_config = entry.get("command-config")
    return Profile(
        addresses,
        str(entry.get("client-id", _DEFAULT_CLIENT_ID)),
        None if command_config is None else str(command_config),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"cannot read {path}: {error}") from error
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: {error}") from error
    unknown = sorted(set(content) - {"default", "clusters"})
    if unknown:
        raise ProfileError(f"{path}: {unknown[0]} is unknown; it takes default and clusters")
    return content


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """Hosts and ports of ``HOST:PORT,HOST``, without a port 9092; ProfileError, also for a URL."""
    return [_address(part.strip()) for part in text.split(",")]


def _address(text: str) -> tuple[str, int]:
    scheme, separator, rest = text.partition("://")
    if separator:
        raise ProfileError(
            f"{text} is a URL: write HOST:PORT without {scheme}://, as in {rest.partition('/')[0]}"
        )
    is_bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    if is_bare_ipv6 or text.endswith("]") or (text and ":" not in text and not text.isdigit()):
        host, port = text, str(_DEFAULT_PORT)
    else:
        host, _, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) < 6
    if not host or not is_number or not 0 < int(port) <= _LAST_PORT:
        raise ProfileError(f"{text or 'an empty address'} is not HOST:PORT")
    return host.strip("[]"), int(port)
