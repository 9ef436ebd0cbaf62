"""The Spark session of a pipeline: the master, the connector's jars, Java, quiet logs.

Which jars:

- ``[spark] "spark.jars"`` or ``"spark.jars.packages"``, if they are given, or those of
  spark-submit;
- else KWIRE_SPARK_JARS, paths with commas;
- else Maven's packages for PySpark 4.0, which Spark fetches itself: the connector, and Delta or
  Iceberg if the sink or the dead letters need them. The connector of 4.0.0 serves every 4.0.x.

For other versions of PySpark, Maven has no connector that Spark can fetch with all its
dependencies. Then the start ends with one line that says what to do.

The session also gets the other settings that Delta and Iceberg need, such as Spark's SQL
extensions. The extensions that the pipeline names are kept.

The executors of a cluster get kwire as a zip file, because the decoders of some formats run there
in Python. So kwire needn't be installed there, only the packages of the format.
"""

import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.config.extras import needs
from kwire.spark.java_runtime import java_home
from kwire.spark.masking import masked
from kwire.spark.parquet_times import TIMES
from kwire.spark.settings import PipelineSettings
from kwire.spark.sinks import delta, iceberg_table, make_sink
from kwire.spark.spark_log import SparkLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
PUBLISHED = "4.0"
"""The versions of PySpark whose connector Spark can fetch with all its dependencies."""

CONNECTOR_VERSION = "4.0.0"
"""One version for every 4.0.x: not all have a connector, and the connectors don't differ."""

STARTING = (
    "starting Spark, which writes its messages to {log}; the first time, it fetches the Kafka "
    "connector (and Delta or Iceberg) from Maven, up to 100 MB"
)
"""The line before Spark's process starts."""

EXTENSIONS = "spark.sql.extensions"

BOUNDS = {
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.kafka.consumer.fetchedData.cache.timeout": "30s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
}
"""What Spark would keep of earlier batches, for a page that a pipeline doesn't serve.

Each batch has a task for each partition that has records, and Spark keeps 100,000 tasks of each of
1,000 stages, and three times all offsets of each of 100 batches. The connector keeps the rest of
each partition's last fetch, up to 1 MiB, for five minutes. With 10,000 partitions that is gigabytes
in the driver, and in executors.
"""

MASTER = "spark.master"
JARS = ("spark.jars", "spark.jars.packages")
PACKAGES = {
    delta.EXTENSION: "io.delta:delta-spark_2.13:4.0.0",
    iceberg_table.EXTENSION: "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
}
"""Maven's package for PySpark 4.0 of each SQL extension."""

_LOGS = Path(__file__).with_name("log4j2.properties")
_PACKAGE = Path(__file__).parents[1]


class NoSpark(Exception):
    """Spark can't start; the text says what to do."""


def open_session(settings: PipelineSettings, log: SparkLog | None = None) -> "SparkSession":
    """The existing session, or a new one for a pipeline; NoSpark, NoJava.

    What Spark's process prints goes to ``log`` if it is given and the process is started here.
    """
    wanted = prepare_session(settings)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(settings.name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    submitted = is_submitted()
    spark = _started(builder, wanted, None if submitted else log)
    spark.sparkContext.setLogLevel("ERROR")
    if not spark.sparkContext.master.startswith("local"):
        ship_package(spark)
    return spark


def prepare_session(settings: PipelineSettings) -> dict[str, str]:
    """Spark's settings for a session, if nothing is missing here to start one; NoSpark, NoJava."""
    try:
        import pyspark
    except ImportError as error:
        raise NoSpark(f"a pipeline {needs('spark', 'pyspark')}") from error
    submitted = is_submitted()
    found = configuration(settings, pyspark.__version__, submitted)
    if not submitted and not has_session():
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ["JAVA_HOME"] = str(java_home(Path(cache) / "kwire" / "java-home"))
    return found


def _started(
    builder: "SparkSession.Builder", wanted: Mapping[str, str], log: SparkLog | None
) -> "SparkSession":
    """The session; NoSpark if Spark's process ends before it answers, after messages of its own.

    Spark's process also gets the Ctrl-C of a terminal, and then ends at once. PySpark would pass
    all settings to the process as arguments, which every user of the machine can see. So the
    process starts with the settings that are no secrets, and gets all of them over PySpark's
    connection.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    try:
        conf = SparkConf(loadDefaults=False).setAll(list(as_arguments(wanted).items()))
        gateway = None
        if log is not None and SparkContext._gateway is None:
            with log.begin() as file:
                gateway = launch_gateway(conf, {"stdout": file, "stderr": file})
        SparkContext._ensure_initialized(conf=conf, gateway=gateway)
        return builder.getOrCreate()
    except OSError as error:
        raise NoSpark(f"Spark can't be started: {error}") from error
    except (PySparkRuntimeError, Py4JError) as error:
        raise NoSpark(
            "Spark ended before it was ready; its messages say why. If it could not fetch "
            'packages: KWIRE_SPARK_JARS, or [spark] "spark.jars", names jars that are there, and '
            '"spark.jars.ivySettings" another repository'
        ) from error


def as_arguments(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that may be arguments of Spark's process, because they are no secrets.

    They include jars and Java options, which the process needs before it has a connection.
    """
    return {
        name: value
        for name, value in settings.items()
        if masked(name, value) == value or name.startswith(("spark.driver.", "spark.jars"))
    }


def check_version(settings: PipelineSettings) -> None:
    """NoSpark if no connector for the installed PySpark is known; starts nothing."""
    with suppress(metadata.PackageNotFoundError):  # another machine may run the pipeline
        configuration(settings, metadata.version("pyspark"))


def is_submitted() -> bool:
    """Whether spark-submit has started this process: then Spark's own process is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def has_session() -> bool:
    """Whether a session exists already. Its creator has to stop it, not the pipeline."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


def configuration(
    settings: PipelineSettings, version: str, is_submitted: bool = False
) -> dict[str, str]:
    """Spark's settings for a session; the settings of the pipeline override kwire's."""
    given = settings.spark
    found = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    found |= BOUNDS | TIMES
    formats = of_formats(settings)
    found |= formats
    if EXTENSIONS in formats and EXTENSIONS in given:
        given = given | {EXTENSIONS: _joined(given[EXTENSIONS], formats[EXTENSIONS])}
    if is_submitted:
        return found | given
    master = given.get(MASTER, "local[*]")
    found[MASTER] = master
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not any(name in given for name in JARS):
        found |= jars(version, formats)
    quiet = f"-Dlog4j2.configurationFile={_LOGS.as_uri()}"
    options = "spark.driver.extraJavaOptions"
    return found | given | {options: f"{quiet} {given.get(options, '')}".strip()}


def of_formats(settings: PipelineSettings) -> dict[str, str]:
    """The settings that the table formats of the sink and of the dead letters need."""
    sink = make_sink(settings.sink, settings.source, settings.name)
    found: dict[str, str] = dict(getattr(sink, "spark_settings", {}))
    dead = settings.dead_letters
    if dead is not None and dead.path and dead.kind == "delta":
        both = _joined(found.get(EXTENSIONS, ""), delta.EXTENSION)
        found = delta.SPARK_SETTINGS | found | {EXTENSIONS: both}
    return found


def _joined(*lists: str) -> str:
    """The names in these comma-separated lists, each once."""
    return ",".join(dict.fromkeys(one for each in lists for one in each.split(",") if one))


def jars(version: str, formats: Mapping[str, str]) -> dict[str, str]:
    """The setting that names the jars; NoSpark if Maven has no suitable connector."""
    if paths := os.environ.get("KWIRE_SPARK_JARS"):
        return {"spark.jars": paths}
    if version.rpartition(".")[0] == PUBLISHED:
        extensions = formats.get(EXTENSIONS, "").split(",")
        packages = [PACKAGES[one] for one in extensions if one in PACKAGES]
        return {"spark.jars.packages": ",".join([f"{CONNECTOR}:{CONNECTOR_VERSION}", *packages])}
    raise NoSpark(
        f"no Kafka connector that resolves by itself is published for PySpark {version}: install "
        "pyspark 4.0 (pip install 'pyspark==4.0.*'), or name the connector's jars in "
        'KWIRE_SPARK_JARS or in [spark] "spark.jars"'
    )


def ship_package(spark: "SparkSession") -> None:
    """Send kwire's package to the executors of a cluster."""
    directory = Path(tempfile.mkdtemp(prefix="kwire-"))
    spark.sparkContext.addPyFile(str(write_package(directory / "kwire.zip")))


def write_package(path: Path) -> Path:
    """Write a zip file with kwire's Python modules, for ``--py-files``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(_PACKAGE.rglob("*")):
            if module.suffix in (".py", ".tsv"):
                file.write(module, Path("kwire") / module.relative_to(_PACKAGE))
    return path
