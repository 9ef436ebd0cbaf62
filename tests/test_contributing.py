"""What contributors elsewhere use agrees with the Makefile and with pyproject.toml."""

import configparser
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwire import __version__

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = [
    *WORKFLOWS,
    ROOT / ".ci" / "run",
    ROOT / ".pre-commit-config.yaml",
    *sorted((ROOT / ".github").rglob("*.md")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMAND = re.compile(r"(?:^ *(?:- run: )?|`)make ([a-z][a-z-]*)(?![a-z-]*:)", re.MULTILINE)


def jobs(workflow: Path) -> dict[str, Any]:
    """The jobs of a workflow by name."""
    found: dict[str, Any] = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return found


def commands(job: dict[str, Any]) -> list[str]:
    """What the steps of a job run."""
    return [step["run"] for step in job["steps"] if "run" in step]


def supported() -> list[str]:
    """The Pythons that kwire is for, the oldest first."""
    classifiers = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"]]
    return [version for version in classifiers if re.fullmatch(r"3\.\d+", version)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_of_make_that_is_shown_exists(page: Path) -> None:
    """In the workflow, in the templates and in the documentation."""
    shown = COMMAND.findall(page.read_text(encoding="utf-8"))
    assert set(shown) - TARGETS == set()


def test_the_workflow_runs_what_a_developer_types() -> None:
    """`make check` on the oldest Python and on the newest, and all that CI runs on one."""
    found = jobs(ROOT / ".github" / "workflows" / "tests.yml")
    assert commands(found["check"]) == ["make check PYTHON=python"]
    assert commands(found["test"]) == [".ci/run"]
    assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    pythons = found["check"]["strategy"]["matrix"]["python"]
    assert len(pythons) == 3
    assert set(pythons) <= set(supported())
    assert {supported()[0], supported()[-1]} <= set(pythons)


def test_a_tag_publishes_what_was_installed() -> None:
    """On every Python that is supported, and without a secret: the index trusts the workflow."""
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    found = jobs(workflow)
    first, *_ = commands(found["dist"])
    assert first == 'make release-check TAG="$GITHUB_REF_NAME" PYTHON=python'
    assert "make installs" in commands(found["dist"])
    [pythons] = [
        step["with"]["python-version"].split()
        for step in found["dist"]["steps"]
        if "setup-python" in step.get("uses", "")
    ]
    assert sorted(pythons) == supported()
    assert found["publish"]["needs"] == "dist"
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets" not in workflow.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("version", "says"), [(f"v{__version__}", ""), ("v9.9.9", f"so the tag is v{__version__}")]
)
def test_a_tag_is_the_version(tmp_path: Path, version: str, says: str) -> None:
    """Another tag publishes nothing, nor does a version whose changes aren't told yet."""
    (tmp_path / "kwire").mkdir()
    for name in ("Makefile", "kwire/__init__.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    command = ["make", "-s", "release-check", f"TAG={version}"]
    for heading, error in ((f"{__version__} (unreleased)", "has no section"), (__version__, "")):
        (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is not bool(says or error)
        assert (says or error) in done.stdout


def test_hooks_are_the_projects_own_linters() -> None:
    """None comes from elsewhere, and all are programs that the environment has."""
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    repos = yaml.safe_load(text)["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    hooks = {hook["id"]: shlex.split(hook["entry"]) for hook in repos[0]["hooks"]}
    dev = {re.split(r"\W", one)[0] for one in PROJECT["project"]["optional-dependencies"]["dev"]}
    for program, *arguments in hooks.values():
        assert Path(program).parent == Path(".venv/bin")
        assert Path(program).name in dev
        assert all((ROOT / one).exists() for one in arguments if one.endswith(".py"))


def test_editors_break_lines_where_the_formatter_does() -> None:
    """And indent a Makefile with tabs."""
    editors = configparser.ConfigParser()
    editors.read_string("[top]\n" + (ROOT / ".editorconfig").read_text(encoding="utf-8"))
    assert int(editors["*.py"]["max_line_length"]) == PROJECT["tool"]["ruff"]["line-length"]
    assert editors["{Makefile,.ci/run}"]["indent_style"] == "tab"


@pytest.mark.parametrize(
    "template", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md")), ids=lambda p: p.stem
)
def test_a_template_has_a_head(template: Path) -> None:
    """Without a name and a sentence about it nobody is offered it."""
    head = yaml.safe_load(template.read_text(encoding="utf-8").split("---\n")[1])
    assert head["name"]
    assert head["about"]


def test_help_is_short() -> None:
    """Five commands to begin with, and that for all others, which has them all."""
    said = {}
    for target in ("help", "help-all"):
        command = ["make", "--no-print-directory", target]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        said[target] = re.findall(r"^  make (\S+)", run.stdout, re.MULTILINE)
    assert sorted(said["help"]) == ["check", "docs", "format", "help-all", "run", "test"]
    assert set(said["help"]) <= set(said["help-all"]) <= TARGETS
    assert len(said["help-all"]) > 40
