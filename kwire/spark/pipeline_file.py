"""A pipeline's file: TOML, read and checked as a whole before Spark starts.

The tables are those of ``kwire.spark.settings``: ``[source]``, ``[decode]``, ``[[transform]]``,
``[sink]``, ``[dead_letters]`` and ``[spark]``, and above them name, checkpoint, trigger, group and
metrics. ``[decode]`` and ``[sink]`` also hold the options of their kind. Paths that don't begin
with ``/`` or a scheme count from the working directory, as in Spark.

Every mistake of a file is named with its line, key, value and what is allowed.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kwire.spark import dead_letters, decode, setting_checks
from kwire.spark.conflicts import conflicts
from kwire.spark.setting_checks import Checked, Mistake
from kwire.spark.settings import PipelineSettings, WrongSetting
from kwire.spark.sink import Sink
from kwire.spark.sinks import make_sink
from kwire.spark.toml_lines import line_of


class WrongPipeline(ValueError):
    """A pipeline that can't run; ``lines`` has one text for each mistake."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = list(lines)
        super().__init__("\n".join(self.lines))


def read_pipeline(path: Path | str) -> PipelineSettings:
    """The settings of a file; WrongPipeline names every mistake."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise WrongPipeline([f"{path}: cannot read the pipeline: {reason}"]) from error
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WrongPipeline([f"{path}: not TOML: {error}"]) from error
    return _checked(given, Path(path), text)


def pipeline_of(given: Mapping[str, Any]) -> PipelineSettings:
    """The settings of a mapping that has the form of a file; WrongPipeline."""
    return _checked(given, None, "")


def _checked(given: Mapping[str, Any], path: Path | None, text: str) -> PipelineSettings:
    checked = Checked()
    settings = setting_checks.pipeline(given, checked, path.stem if path else "")
    if not checked.mistakes:
        _check_kind("sink", lambda: _make_sink(settings).check(), checked)
        _check_kind("decode", lambda: decode.check(settings.decode), checked)
        _check_kind("dead_letters", lambda: _check_dead_letters(settings), checked)
    if not checked.mistakes:
        for one in conflicts(settings):
            checked.mistake(tuple(one.key.split(".")), one.value, one.allowed)
    if checked.mistakes:
        raise WrongPipeline(_mistake_text(one, path, text) for one in checked.mistakes)
    return settings


def _check_dead_letters(settings: PipelineSettings) -> None:
    if settings.dead_letters is not None:
        dead_letters.check(settings.dead_letters)
        dead_letters.check_pattern(settings.dead_letters, settings.source)


def _make_sink(settings: PipelineSettings) -> Sink:
    return make_sink(settings.sink, settings.source, settings.name)


def _check_kind(table: str, check: Callable[[], object], checked: Checked) -> None:
    """Check the options of a sink or a decoder, which only the kind's own module knows."""
    try:
        check()
    except WrongSetting as error:
        key = error.key.removeprefix(f"{table}.")
        checked.mistake((table, *key.split(".")), error.value, error.allowed)


def _mistake_text(mistake: Mistake, path: Path | None, text: str) -> str:
    where = f"{path}:{line_of(text, mistake.path)}: " if path else ""
    return f"{where}{mistake}"
