"""Reads the file of settings that ``kwire serve`` gets."""

from pathlib import Path

from kwire.cli.output import CommandError
from kwire.config.properties import located_properties
from kwire.config.secret_files import UnsafeFile, check_settings


def settings_of(name: str) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a file, and the place of each for messages; CommandError."""
    try:
        data = Path(name).read_bytes()
        found = located_properties(data.decode())
        values = {key: value for key, (value, _) in found.items()}
        check_settings(name, values)
    except UnsafeFile as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise CommandError(f"cannot read {name}: line {line} is not UTF-8") from error
    return values, {key: f"{name}, line {line}: " for key, (_, line) in found.items()}
