"""Chromium, and brokers with an HTTP port and data, for the tests and for the pictures in docs."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from browser_tests import data
from kwire.testing.process import BrokerProcess
from kwire.testing.schema_registry import SchemaRegistry

NAMES = ("chromium", "chromium-browser", "google-chrome")
SCHEMA_REGISTRY = "kwire.http.schema.registry.url"
TOKEN = "the token of the browser tests"
MEMORY = Path("/dev/shm")


def chromium() -> str | None:
    """The path of Chromium, None if it isn't installed. ``KWIRE_CHROMIUM`` names another one."""
    named = os.environ.get("KWIRE_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium. In a container, root can't have its sandbox."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        try:
            yield launched
        finally:
            launched.close()


class Site(NamedTuple):
    """A broker's page and the address of its Kafka port."""

    url: str
    bootstrap: str


@contextmanager
def site(*, is_large: bool, is_hostile: bool = True) -> Iterator[Site]:
    """A broker with data, and with more than 10,000 partitions if it is large.

    Its data is in memory where that is possible, because 10,000 directories take a disk minutes.
    """
    room = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kwire-browser-", dir=room) as directory:
        token = Path(directory) / "token"
        token.touch(mode=0o600)
        token.write_text(TOKEN, encoding="utf-8")
        settings = {
            "kwire.http.listen": "127.0.0.1:0",
            "kwire.http.admin.enable": "true",
            "kwire.http.admin.token.file": str(token),
            f"group.{data.LOCK}": "60000",
            f"group.{data.LOCK.replace('record', 'max.record')}": data.LOCK_MS,
        }
        with (
            SchemaRegistry() as registry,
            BrokerProcess(
                Path(directory) / "data", settings | {SCHEMA_REGISTRY: registry.url}
            ) as broker,
        ):
            schema = registry.register("shipments-value", data.SHIPMENT)
            data.fill_framed(broker.bootstrap, schema)
            if is_large:
                data.fill_many(broker.bootstrap)
            data.fill(broker.bootstrap)
            with data.living(broker.bootstrap, is_hostile=is_hostile):
                yield Site(broker.http.rstrip("/"), broker.bootstrap)
