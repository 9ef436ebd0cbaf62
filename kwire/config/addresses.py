"""Addresses of listeners and ports: their syntax and the checks of their values."""

from typing import NamedTuple

from kwire.config.values import ConfigError


class Listener(NamedTuple):
    """An address to listen on or to advertise; an empty host stands for every interface."""

    name: str
    host: str
    port: int


def check_different(setting: str, listeners: list[Listener]) -> None:
    """Raise ConfigError if two listeners have the same name."""
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(setting, ",".join(names), "each listener must have a different name")


def check_hosts(setting: str, listeners: list[Listener]) -> None:
    """Raise ConfigError for a host name that no name server can resolve."""
    for _, host, _ in listeners:
        if host and not _is_host(host):
            problem = "between the dots of a host's name are 1 to 63 characters"
            raise ConfigError(setting, host, problem)


def _is_host(host: str) -> bool:
    """Whether a text can be resolved as the name of a host."""
    if host.isascii():
        return "\0" not in host and all(0 < len(x) < 64 for x in host.removesuffix(".").split("."))
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def parse_listener(setting: str, text: str) -> Listener:
    """The parts of ``NAME://host:port``; a ConfigError names ``setting``."""
    name, separator, address = text.strip().partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not port or "]" in port or not colon:
        raise ConfigError(setting, text, "must be NAME://host:port, for instance PLAINTEXT://:9092")
    if not is_port(port):
        raise ConfigError(setting, text, f"the port {port} must be a number from 0 to 65535")
    if host == "*":
        everywhere = f"{name}://:{port}"
        problem = f"must leave the host out to mean every interface: {everywhere}"
        raise ConfigError(setting, text, problem)
    return Listener(name.upper(), host.strip("[]"), int(port))


def is_port(text: str) -> bool:
    """Whether a text is the number of a port; 0 lets the system choose one."""
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= 65535


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address, given in numbers as the system prints it."""
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")


def is_every_interface(host: str) -> bool:
    """Whether a listener's host stands for every interface, so that no client can dial it."""
    return host in ("", "0.0.0.0", "::")
