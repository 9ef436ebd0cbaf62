"""kcat, where it is installed (conftest.py leaves this file out where it isn't)."""

import json
import shutil
import subprocess

import pytest

from compat_tests.conftest import Names
from tests.support.topics import create_topics


def kcat(*arguments: str, stdin: str = "") -> str:
    """Run kcat to its end and return what it printed."""
    program = shutil.which("kcat")
    assert program is not None
    done = subprocess.run(
        [program, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.runs("kcat", "kcat 1.7.1, of Debian 12", "")
def test_kcat(bootstrap: str, names: Names) -> None:
    """Its metadata, its producer and its consumer."""
    topic = names.topic("kcat")
    create_topics(bootstrap, topic, partitions=2)
    listed = json.loads(kcat("-b", bootstrap, "-L", "-J", "-t", topic))
    assert [len(found["partitions"]) for found in listed["topics"]] == [2]
    lines = [f"key{n}:value{n}" for n in range(50)]
    kcat("-b", bootstrap, "-P", "-t", topic, "-K", ":", stdin="\n".join(lines))
    printed = kcat("-b", bootstrap, "-C", "-t", topic, "-K", ":", "-e", "-q")
    assert sorted(printed.split()) == sorted(lines)
