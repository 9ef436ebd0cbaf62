"""Names of test files while several processes run tests: one line when a file's first test ends.

pytest-xdist shows a dot for each test, which says nothing about where a run is. `make test` runs
pytest without -q, and then shows these names.
"""

from typing import Any

import pytest


class Names:
    """Prints each file's name once; a test that fails keeps its letter."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seen: set[str] = set()

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        """A test begins in one of the processes."""
        name = location[0]
        if name not in self._seen:
            self._seen.add(name)
            reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            reporter.ensure_newline()
            reporter.write_line(name)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """No dot for a test that passes."""
        passes = report.when == "call" and report.passed and not hasattr(report, "wasxfail")
        return ("passed", "", "PASSED") if passes else None


def show_names(config: pytest.Config) -> None:
    """Show the names in the process that prints, if it is one of several and isn't told -q."""
    shares = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if shares and config.get_verbosity() == 0:
        config.pluginmanager.register(Names(config), "kwire-names")
