"""The recipes of docs/TESTING.md run as they stand; those of Spark and Java in their own suites."""

import os
import re
import sys

import pytest

from tests.testing.recipes import TESTING, recipes

pytest_plugins = ["pytester"]

APPLICATION = '''
from confluent_kafka import Consumer, Producer


class Application:
    """Copies orders to bills, as the example of the fixtures needs it."""

    def __init__(self, bootstrap):
        self.settings = {"bootstrap.servers": bootstrap}

    def bill_all(self):
        group = {"group.id": "billing", "auto.offset.reset": "earliest"}
        consumer, producer = Consumer(self.settings | group), Producer(self.settings)
        consumer.subscribe(["orders"])
        orders = sorted(message.value() for message in consumer.consume(2, timeout=20))
        for order in orders:
            producer.produce("bills", order)
        producer.flush()
        consumer.close()


'''


def test_the_recipes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stock clients, each in a file of its own."""
    found = recipes()
    found["fixtures"] = APPLICATION + found["fixtures"]
    pytester.makepyfile(**{f"test_{name}": text for name, text in found.items()})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=sum(text.count("def test_") for text in found.values()))


def test_no_snippet_is_left_out() -> None:
    """Every block of code has a name, under which a test runs it."""
    text = TESTING.read_text(encoding="utf-8")
    named = [recipes(kind) for kind in ("recipe", "recipe-of-spark", "recipe-of-java")]
    assert len(re.findall(r"```(?:python|java)\n", text)) == sum(map(len, named))
