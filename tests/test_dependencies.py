"""What kwire installs from elsewhere: named, pinned, and as its author published it.

- kwire imports no package that pyproject.toml doesn't name.
- Every package of a lock file has one version, and hashes of SHA-256: an altered file isn't
  installed.
- What runs here is what the lock files say, and the packages fit each other.

Known vulnerabilities are published on the network, which ``make check`` doesn't use.
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
IMPORT = re.compile(
    r"^ *(?:from|import) ([A-Za-z_][A-Za-z0-9_]*)(?:\.[\w.]+)?(?: import | as |$)", re.M
)
ABOUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OF_SPARK = {
    "google": "protobuf",
    "grpc_tools": "grpcio-tools",
    "numpy": "pandas",
    "py4j": "pyspark",
}
"""Modules of pipelines on Spark, and the packages that bring them."""
OF_THE_USER = {"deltalake", "pyiceberg"}
"""Packages that users install for their own tables; kwire says so where one is missing."""


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _named() -> set[str]:
    """The packages that pyproject.toml names, whatever they are for."""
    groups = ABOUT["optional-dependencies"].values()
    wanted = [*ABOUT["dependencies"], *(one for group in groups for one in group)]
    return {_canonical(Requirement(text).name) for text in wanted}


def _counts_here(wanted: Requirement) -> bool:
    """Whether a requirement is for this Python and this machine, without any extra."""
    return wanted.marker is None or wanted.marker.evaluate({"extra": ""})


def _imported() -> dict[str, str]:
    """The packages from elsewhere that kwire imports, and where."""
    found: dict[str, str] = {}
    for path in (ROOT / "kwire").rglob("*.py"):
        for module in IMPORT.findall(path.read_text(encoding="utf-8")):
            if module not in sys.stdlib_module_names and module != "kwire":
                found[module] = str(path.relative_to(ROOT))
    return found


def test_kwire_imports_only_what_it_names() -> None:
    """A package that is there by chance may be gone, or another one, with the next release."""
    owners = metadata.packages_distributions()
    named = _named()
    imported = _imported()
    assert {"trio", "cryptography", "gssapi", "pyspark"} <= imported.keys()
    for module, where in imported.items():
        if module in OF_THE_USER:
            continue
        known = [OF_SPARK[module]] if module in OF_SPARK else owners.get(module, [module])
        packages = {_canonical(name) for name in known}
        assert packages & named, f"{where} imports {module}, which pyproject.toml doesn't name"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_package_of_a_lock_file_has_a_version_and_hashes(lock: Path) -> None:
    """pip installs nothing else with ``--require-hashes``, which the Makefile says."""
    entries = lock.read_text(encoding="utf-8").split("\n")
    starts = [line for line in entries if line and not line.startswith((" ", "#"))]
    assert starts
    for line in starts:
        assert PINNED.match(line), line
        assert line.endswith("\\"), f"{line} has no hash"
    hashes = [line.strip() for line in entries if line.startswith("    --hash=")]
    assert len(hashes) >= len(starts)
    assert all(re.match(r"--hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in hashes)


def test_what_runs_is_what_is_locked() -> None:
    """And each package has what it needs, in a version that it takes (as ``pip check``)."""
    lines = (ROOT / "requirements" / "test.txt").read_text(encoding="utf-8").splitlines()
    locked = [Requirement(line.rstrip(" \\")) for line in lines if PINNED.match(line)]
    locked = [one for one in locked if _counts_here(one)]
    here = {_canonical(one.name): one for one in metadata.distributions()}
    for one in locked:
        found = here.get(_canonical(one.name))
        assert found is not None, f"{one} isn't installed: make .venv/.test"
        assert one.specifier.contains(found.version, prereleases=True), one
    for name in (_canonical(one.name) for one in locked):
        for needed in map(Requirement, here[name].requires or []):
            if not _counts_here(needed):
                continue
            other = here.get(_canonical(needed.name))
            assert other is not None, f"{name} needs {needed}"
            assert needed.specifier.contains(other.version, prereleases=True), f"{name}: {needed}"


def test_the_makefile_installs_with_hashes() -> None:
    """Every line that installs a lock file."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r".*pip install.* -r .*|.*\$\(PIP\).*-r .*", text)
    assert len(installs) >= 2
    assert all("--require-hashes" in line for line in installs)
    by_name = re.findall(r"(?:LOCKED,|-r )requirements/(\w+)\.txt", text)
    assert sorted(set(by_name)) == sorted(path.stem for path in LOCKS)
