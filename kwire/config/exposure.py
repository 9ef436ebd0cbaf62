"""The warning about listeners that other machines reach and that ask nobody who they are."""

from collections.abc import Sequence

from kwire.config.broker import BrokerConfig, is_loopback

TRUSTED = "kwire.network.trusted"


def warning(config: BrokerConfig, addresses: Sequence[tuple[str, int]]) -> str | None:
    """One line on the open ones of ``addresses``, and what to do; None if there is nothing to say.

    ``addresses`` are those of ``config.listeners()``, in that order, as the system has bound them.
    """
    if config[TRUSTED]:
        return None
    listeners = zip(config.listeners(), addresses, strict=True)
    exposed = [
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for listener, (host, port) in listeners
        if not is_loopback(host)
        if not config.security_protocol(listener.name).startswith("SASL_")
    ]
    if not exposed:
        return None
    return (
        f"on {', '.join(exposed)} kwire asks nobody for a password: any machine that reaches it "
        "can read, write and delete everything; listen on 127.0.0.1, or let a firewall admit only "
        f"clients that may do all of that and say so with -o {TRUSTED}=true"
    )
