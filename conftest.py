"""What every run of pytest has here: `make test` learns from it which tests ran, and how long."""

pytest_plugins = ["tests.parts.report"]
