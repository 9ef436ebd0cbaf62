"""The warning about ports that other machines can reach without any authentication."""

from collections.abc import Sequence
from itertools import cycle

from kwire.config.broker import BrokerConfig, is_loopback

TRUSTED = "kwire.network.trusted"


def warning(
    config: BrokerConfig,
    addresses: Sequence[tuple[str, int]],
    http: Sequence[tuple[str, int]] = (),
) -> str | None:
    """One line on the open addresses, and what to do; None if there is nothing to say.

    ``addresses`` has the bound addresses of ``config.listeners()``, in that order, for one worker
    after the other. ``http`` has the bound addresses of the HTTP ports. Every client that reaches
    an HTTP port can read everything, because its token only guards changes.
    """
    if config[TRUSTED]:
        return None
    listeners = zip(cycle(config.listeners()), addresses, strict=False)
    exposed = [
        _shown(address)
        for listener, address in listeners
        if not is_loopback(address[0])
        if not asks_who(config, listener.name)
    ]
    power = "read, write and delete everything" if exposed else "read everything"
    exposed += [f"http://{_shown(address)}/" for address in http if not is_loopback(address[0])]
    if not exposed:
        return None
    return (
        f"on {', '.join(exposed)} kwire asks nobody for a password: any machine that reaches it "
        f"can {power}; listen on 127.0.0.1, or let a firewall admit only "
        f"clients that may do all of that and say so with -o {TRUSTED}=true"
    )


def asks_who(config: BrokerConfig, listener: str) -> bool:
    """Whether clients of a listener have to authenticate."""
    if config.security_protocol(listener) == "PLAINTEXT":
        return False
    settings = config.of_listener(listener)
    return settings.is_sasl or settings["ssl.client.auth"] == "required"


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
