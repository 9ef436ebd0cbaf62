"""The table of docs/WHAT-RUNS.md, made from the tests: a row for each mark ``runs``.

The mark says which program a test runs, the package whose version the lock files or Maven's files
have, and what to know. ``make docs`` writes the page; tests/test_what_runs.py fails when it isn't
what the tests say.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat_tests.kafka_version import SUPPORTED

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("WHAT-RUNS.md")
TABLE = re.compile(r"(?<=<!-- programs -->\n).*(?=<!-- end of programs -->)", re.DOTALL)
FOLDERS = {
    "ecosystem_tests": "ecosystem",
    "compat_tests": "compat",
    "spark_tests": "spark-stock",
}
"""The folders of tests that run others' programs, and the commands of make that run them."""
LOCKS = (
    ROOT / "ecosystem_tests" / "requirements.txt",
    ROOT / "spark_tests" / "requirements-stock.txt",
    ROOT / "requirements" / "test.txt",
)
POMS = ROOT / "compat_tests" / "java"


class Row(NamedTuple):
    """A program, its version, what to know, and the command that runs its test."""

    program: str
    version: str
    limits: str
    command: str


def rows() -> list[Row]:
    """A row for each mark, by program."""
    return sorted(
        Row(program, version_of(package), limits, f"make {target} ARGS={path.relative_to(ROOT)}")
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).glob("test_*.py")
        for program, package, limits in _marks(path)
    )


def _marks(path: Path) -> Iterator[list[str]]:
    """The arguments of the marks in a file of tests."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.runs":
            yield [ast.literal_eval(one) for one in node.args]


def version_of(package: str) -> str:
    """The version in a lock file, or of an artifact in one of Maven's files; ValueError."""
    for lock in LOCKS:
        found = re.search(rf"^{re.escape(package)}==(\S+)", lock.read_text(encoding="utf-8"), re.M)
        if found:
            return found[1]
    artifact = rf"<artifactId>{re.escape(package)}</artifactId><version>([^<]+)<"
    for pom in sorted(POMS.glob("*.xml")):
        text = pom.read_text(encoding="utf-8")
        if found := re.search(artifact, text):
            properties = re.findall(r"<([a-z.]+\.version)>([^<]+)<", text)
            version = found[1]
            for name, value in [("kafka.version", SUPPORTED[0]), *properties]:
                version = version.replace(f"${{{name}}}", value)
            return version
    if " " in package:
        return package.partition(" ")[2]
    raise ValueError(f"no lock file and no file of Maven has {package}")


def with_table(page: str) -> str:
    """The page with the rows of today."""
    lines = ["| program | version | to know | its test |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {one.program} | {one.version} | {one.limits} | `{one.command}` |" for one in rows()
    ]
    return TABLE.sub(lambda _: "\n".join(lines) + "\n", page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
