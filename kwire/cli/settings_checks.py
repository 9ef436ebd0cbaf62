"""The checks of ``kwire doctor`` for a properties file: mistakes, and settings without effect."""

import logging
from pathlib import Path

from kwire.cli.finding import ACT, GOOD, NOTE, Finding
from kwire.config.broker import BrokerConfig
from kwire.config.properties import located_properties
from kwire.config.settings import ConfigError


class _Collector(logging.Handler):
    """Keeps the texts of log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def check_settings(path: Path | None) -> tuple[BrokerConfig | None, list[Finding]]:
    """The settings of a file, None if a broker would refuse them, and the findings about them."""
    if path is None:
        return BrokerConfig.load({}), []
    why = "a broker does not start with this file"
    remedy = f"correct {path}; docs/SETTINGS.md lists every setting"
    try:
        found = located_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        return None, [Finding(ACT, f"{path}: {error.strerror}", why, remedy)]
    except UnicodeDecodeError:
        return None, [Finding(ACT, f"{path}: it is not UTF-8", why, remedy)]
    values = {key: value for key, (value, _) in found.items()}
    places = {key: f"{path}, line {line}: " for key, (_, line) in found.items()}
    collector = _Collector()
    logger = logging.getLogger("kwire.config.broker")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(collector)
    try:
        config = BrokerConfig.load(values, places)
    except ConfigError as error:
        return None, [Finding(ACT, f"{places.get(error.name, '')}{error}", why, remedy)]
    finally:
        logger.removeHandler(collector)
        logger.propagate = propagates
    why, remedy = "it does not do what it says", "take it out, or expect nothing of it"
    notes = [Finding(NOTE, text, why, remedy) for text in collector.texts]
    good = Finding(GOOD, f"{path}: {len(values)} settings, none without effect")
    return config, notes or [good]
