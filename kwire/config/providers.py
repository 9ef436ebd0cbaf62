"""``config.providers``: setting values that are stored elsewhere, written ``${provider:path:key}``.

Rules:

- ``config.providers`` lists the providers. ``config.providers.NAME.class`` is the Kafka class of
  the provider NAME: properties files, the environment, or a directory of files.
- A value may contain several references and other text. References inside a replaced text are not
  resolved. A reference to a provider that isn't listed stays as it is.
- A file that every user of the machine may read is refused, because its content is a secret.
- An error shows the reference, never the value behind it.

Source: ConfigTransformer, FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider of
Kafka; KIP-297, KIP-421, KIP-887.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kwire.config.properties import parse_properties
from kwire.config.secret_files import REFERENCE, UnsafeFile, read_secret
from kwire.config.values import ConfigError

SETTING = "config.providers"
_PACKAGE = "org.apache.kafka.common.config.provider."

Find = Callable[[str, str], str]
"""From a path and a key to a value; LookupError or UnsafeFile."""


def resolved(
    properties: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The settings with the values that their references stand for; ConfigError."""
    providers = _providers(properties, environment)

    def found(name: str, reference: re.Match[str]) -> str:
        find = providers.get(reference[1])
        if find is None:
            return reference[0]
        try:
            return find(reference[2] or "", reference[3])
        except LookupError:
            raise ConfigError(name, reference[0], "there is no such value") from None
        except UnsafeFile as error:
            raise ConfigError(name, reference[0], str(error)) from None

    return {
        name: text if name.startswith(SETTING) else REFERENCE.sub(partial(found, name), text)
        for name, text in properties.items()
    }


def _providers(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Find]:
    found: dict[str, Find] = {}
    for name in filter(None, map(str.strip, properties.get(SETTING, "").split(","))):
        setting = f"{SETTING}.{name}"
        kind = properties.get(f"{setting}.class", "").strip()
        allowed = properties.get(f"{setting}.param.allowed.paths", "")
        paths = [Path(path.strip()).resolve() for path in allowed.split(",") if path.strip()]
        match kind.removeprefix(_PACKAGE):
            case "FileConfigProvider":
                found[name] = partial(_of_file, paths)
            case "DirectoryConfigProvider":
                found[name] = partial(_of_directory, paths)
            case "EnvVarConfigProvider":
                pattern = properties.get(f"{setting}.param.allowlist.pattern", ".*")
                found[name] = partial(_of_environment, environment, pattern)
            case _:
                problem = (
                    "must be one of FileConfigProvider, DirectoryConfigProvider and "
                    f"EnvVarConfigProvider of {_PACKAGE.rstrip('.')}"
                )
                raise ConfigError(f"{setting}.class", kind or None, problem)
    return found


def _of_file(allowed: list[Path], path: str, key: str) -> str:
    _check_allowed(path, allowed)
    return parse_properties(read_secret(path).decode("utf-8", "replace"))[key]


def _of_directory(allowed: list[Path], path: str, key: str) -> str:
    if not key or "/" in key or key in (".", ".."):
        raise LookupError(key)
    file = os.path.join(path, key)
    _check_allowed(file, allowed)
    return read_secret(file).decode("utf-8", "replace")


def _of_environment(environment: Mapping[str, str], pattern: str, path: str, key: str) -> str:
    if not re.fullmatch(pattern, key):
        raise LookupError(key)
    return environment[key]


def _check_allowed(path: str, allowed: list[Path]) -> None:
    resolved_path = Path(path).resolve()
    if allowed and not any(resolved_path.is_relative_to(one) for one in allowed):
        raise UnsafeFile("the file is outside param.allowed.paths")
