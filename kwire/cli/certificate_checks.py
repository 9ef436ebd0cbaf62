"""The checks of ``kwire doctor`` for the certificates of a broker's listeners: when they expire."""

from pathlib import Path

from kwire.cli.finding import ACT, GOOD, NOTE, Finding
from kwire.config.broker import BrokerConfig
from kwire.config.extras import command

DAYS = 30
"""How long before its end a certificate has to be renewed."""

_LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")


def check_certificates(config: BrokerConfig | None) -> list[Finding]:
    """The PEM files of the listeners with TLS."""
    paths = _files(config) if config is not None else []
    if not paths:
        return []
    try:
        from kwire.security.renewal import soon_over
    except ImportError:
        what = "certificates: their ends can't be read without the package cryptography"
        return [Finding(NOTE, what, "clients refuse what has ended", command("security"))]
    findings = [
        Finding(
            ACT,
            f"{path}: its certificate ends on {ends:%Y-%m-%d}",
            "then clients and other brokers refuse the connection",
            f"kwire secure renew {path.parent}, or have your CA sign a new one; brokers read the "
            "new file without a restart",
        )
        for path, ends in soon_over(paths, DAYS)
    ]
    names = ", ".join(map(str, paths))
    return findings or [Finding(GOOD, f"certificates: {names} are good for {DAYS} days and more")]


def _files(config: BrokerConfig) -> list[Path]:
    """The PEM files of keys and CAs, each once."""
    found: dict[Path, None] = {}
    for name in config.secured_listeners:
        listener = config.of_listener(name)
        for setting in _LOCATIONS if listener.is_tls else ():
            kind = listener.text(setting.replace("location", "type")).upper()
            if listener.text(setting) and kind == "PEM":
                found[Path(listener.text(setting))] = None
    return list(found)
