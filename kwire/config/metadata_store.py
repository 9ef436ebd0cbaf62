"""The address of a cluster's metadata store: ``etcd://h1:2379,h2:2379/prefix``, or ``etcds://``.

Rules:

- A port may be left out; it is 2379 then. The prefix may be left out; it is ``kwire`` then.
- ``etcds`` is etcd over TLS.
- User and password have settings of their own, because an address isn't secret.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kwire.config.settings import ConfigError, Value

SETTING = "kwire.metadata.store"
DEFAULT_PREFIX = "kwire"
EXAMPLE = "etcd://host1:2379,host2:2379,host3:2379/prefix"

_ADDRESS = re.compile(r"(etcds?)://([^/]+)(?:/(.*))?")
_ENDPOINT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:@\[\]\s]+)(?::(\d{1,5}))?")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]+")


class EtcdAddress(NamedTuple):
    """The endpoints of an etcd cluster as ``host:port``, and the prefix of kwire's keys in it."""

    endpoints: tuple[str, ...]
    prefix: str
    is_tls: bool


def parse_store(text: str) -> EtcdAddress:
    """The parts of the setting's value; ConfigError describes the right form."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise _wrong(text, f"must look like {EXAMPLE}")
    scheme, hosts, path = found.groups()
    if "@" in hosts:
        name = f"{SETTING}.username and {SETTING}.password"
        raise _wrong("(hidden)", f"must not hold a password; set {name} instead")
    prefix = (path or "").strip("/") or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(prefix) or "//" in prefix:
        raise _wrong(text, "the prefix may have letters, digits and . _ - / only")
    endpoints = tuple(_endpoint(text, host) for host in hosts.split(","))
    if len(set(endpoints)) != len(endpoints):
        raise _wrong(text, "must name each host once")
    return EtcdAddress(endpoints, prefix, scheme == "etcds")


def check_cluster(
    config: Mapping[str, Value],
    listeners: Sequence[tuple[str, str, int]],
    advertised: Sequence[tuple[str, str, int]],
) -> None:
    """Check what a broker of a cluster needs beside the store; ConfigError.

    Listeners are (name, host, port). The other brokers give this broker's addresses to clients, so
    each listener needs an address that is the same for all clients and brokers.
    """
    known = {name for name, _, _ in advertised}
    for name, host, _ in listeners:
        if name not in known and host in ("", "0.0.0.0", "::"):
            raise ConfigError(
                "advertised.listeners",
                None,
                f"must have an address for {name} that clients and other brokers reach, because "
                f"{SETTING} makes this broker one of several and {name} listens on every interface",
            )
    if (config[f"{SETTING}.tls.certificate.file"] is None) != (
        config[f"{SETTING}.tls.key.file"] is None
    ):
        raise ConfigError(f"{SETTING}.tls.key.file", None, "certificate and key need each other")


def _endpoint(text: str, endpoint: str) -> str:
    found = _ENDPOINT.fullmatch(endpoint.strip())
    if found is None:
        raise _wrong(text, f"{endpoint.strip() or 'an empty name'} is no host:port; {EXAMPLE}")
    host, port = found[1], found[2] or "2379"
    if not 0 < int(port) <= 65535:
        raise _wrong(text, f"the port {port} must be a number from 1 to 65535")
    return f"{host}:{port}"


def _wrong(text: str, problem: str) -> ConfigError:
    return ConfigError(SETTING, text, problem)
