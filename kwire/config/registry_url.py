"""The address of a schema registry, as a setting has it."""

from urllib.parse import urlsplit

from kwire.config.values import ConfigError

_NAME = "kwire.http.schema.registry.url"


def check_registry(url: str) -> None:
    """Raise ConfigError for what is no address, and for one with a password in it.

    Whoever may read the settings would read the password, and the page shows them to everybody.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        user_info = "kwire.http.schema.registry.basic.auth.user.info"
        raise ConfigError(_NAME, "(hidden)", f"must not have a login: give it in {user_info}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(_NAME, url, "must be an address like http://registry.example.org:8081")
