"""Small files and renames where checkpoints and file sinks are: locally, or through Hadoop.

Rules:

- A small file is replaced as a whole: a reader sees the old content or the new one, also after a
  kill. Locally a rename does that, and on HDFS Spark's CheckpointFileManager. Object stores can't
  rename: the old file is deleted, then the new one copied to its name. So there a copy with the new
  content is written beside the file first, and counts while the file is missing.
- Locally Hadoop's classes are not used: their checksum files (``.name.crc``) are renamed apart from
  the files they belong to, so a kill in between makes a file unreadable.
- Files that are written ``aside`` are locally not below the directory (``aside_of``), because not
  all readers skip names that begin with ``_``. A glob with ``**`` finds them. pyarrow skips them,
  but lists them first, and fails if a directory is removed meanwhile.
- ``rename`` replaces an existing file. Locally this is atomic. HDFS and object stores refuse or
  copy: there the old file is deleted first, and for a moment there is none.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlparse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
)
"""The names of Spark's class, by version."""

_REPLACES = ("hdfs", "viewfs")
"""File systems in which a rename replaces a file at once."""

_COPY = ".copy"


class Storage(Protocol):
    """Files below a directory; names are relative to it, with ``/``."""

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a small file as a whole."""

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, in order; none if it isn't there."""

    def files(self, directory: str) -> Iterator[str]:
        """The files anywhere below a directory, relative to the top."""

    def aside(self) -> str:
        """The URL of a directory for files that get their names here later, by ``rename``."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, given by its name or its URL; the new directory is made if need be."""

    def delete(self, name: str) -> None:
        """Delete a file, or a directory with its content; harmless if it is missing."""

    def locked(self, name: str) -> AbstractContextManager[object]:
        """Hold an exclusive lock, if the file system has locks: a local one has."""

    def url(self, name: str = "") -> str:
        """How Spark names a file or directory."""


def storage_at(url: str, spark: "SparkSession | None" = None) -> Storage:
    """The storage at a URL or path; without Spark only local ones can be read (ValueError)."""
    parsed = urlparse(url)
    if spark is not None:
        jvm: Any = spark.sparkContext._jvm
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        path = jvm.org.apache.hadoop.fs.Path(url)
        scheme = path.getFileSystem(configuration).getScheme()
        if scheme != "file":
            storage = _HadoopStorage(spark, url)
            return storage if scheme in _REPLACES else TwoCopies(storage)
    elif parsed.scheme not in ("", "file"):
        raise ValueError(f"{url} can't be read without Spark")
    # Hadoop takes a path as it is written, with its per cent signs.
    local = url.removeprefix("file:").replace("///", "/", 1) if parsed.scheme else url
    return LocalStorage(Path(local).absolute())


def aside_of(directory: Path, use: str) -> Path:
    """A hidden directory beside another one, or in it if its parent is another file system."""
    parent = directory.parent
    if parent.stat().st_dev != directory.stat().st_dev:
        return directory / "_kwire" / use
    return parent / f".kwire-{directory.name}" / use


class LocalStorage:
    """A directory of this machine, or of a file system that is mounted on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a small file as a whole."""
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        aside.write_bytes(content)
        aside.replace(path)

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, in order; none if it isn't there."""
        try:
            return sorted(os.listdir(self._directory / directory))
        except FileNotFoundError:
            return []

    def files(self, directory: str) -> Iterator[str]:
        """The files anywhere below a directory, relative to the top."""
        for path, _, names in os.walk(self._directory / directory):
            for name in sorted(names):
                yield (Path(path) / name).relative_to(self._directory).as_posix()

    def aside(self) -> str:
        """A directory beside this one, or in it if that is another file system."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return f"file://{aside_of(self._directory, 'staging')}"

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and replace an existing file of the new name."""
        target = self._directory / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (self._directory / old.removeprefix("file://")).replace(target)

    def delete(self, name: str) -> None:
        """Delete a file or a directory."""
        path = self._directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold an exclusive lock; it ends with the process that holds it."""
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def url(self, name: str = "") -> str:
        """How Spark names a file or directory."""
        return f"file://{self._directory / name}"


class _HadoopStorage:
    """A directory of any file system that Hadoop knows, by calls into Spark's JVM."""

    def __init__(self, spark: "SparkSession", url: str) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._top = url.rstrip("/")
        self._files = self._path("").getFileSystem(self._configuration)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(name))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a small file as a whole."""
        path = self._path(name)
        self._files.mkdirs(path.getParent())
        manager = self._manager().create(path.getParent(), self._configuration)
        stream = manager.createAtomic(path, True)
        stream.write(content)
        stream.close()

    def _manager(self) -> Any:
        for name in _MANAGERS:
            try:
                self._jvm.java.lang.Class.forName(name)
            except Exception:
                continue
            found = self._jvm
            for part in name.split("."):
                found = getattr(found, part)
            return found
        raise RuntimeError(f"this Spark has none of {', '.join(_MANAGERS)}")

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, in order; none if it isn't there."""
        path = self._path(directory)
        if not self._files.exists(path):
            return []
        return sorted(one.getPath().getName() for one in self._files.listStatus(path))

    def files(self, directory: str) -> Iterator[str]:
        """The files anywhere below a directory, relative to the top."""
        if not self._files.exists(self._path(directory)):
            return
        top = self._path("").toUri().getPath().rstrip("/") + "/"
        found = self._files.listFiles(self._path(directory), True)
        while found.hasNext():
            yield found.next().getPath().toUri().getPath().removeprefix(top)

    def aside(self) -> str:
        """A directory in this one; readers that list through Hadoop pass over it."""
        return self.url("_kwire/staging")

    def rename(self, old: str, new: str) -> None:
        """Rename a file; an existing file is deleted first if it can't be replaced."""
        self._files.mkdirs(self._path(new).getParent())
        if self._files.exists(self._path(new)):
            self._files.delete(self._path(new), False)
        if not self._files.rename(self._path(old), self._path(new)):
            raise OSError(f"{self.url(old)} can't be renamed to {self.url(new)}")

    def delete(self, name: str) -> None:
        """Delete a file or a directory."""
        self._files.delete(self._path(name), True)

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Do nothing: there are no locks."""
        return nullcontext()

    def url(self, name: str = "") -> str:
        """How Spark names a file or directory."""
        if "://" in name:
            return name
        return f"{self._top}/{name}" if name else self._top


class TwoCopies:
    """A storage that can't replace a file at once: its small files have a copy each."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, name: str) -> bytes | None:
        """The content of a file, or of its copy while a kill has left no file; None if neither."""
        content = self._storage.read(name)
        return self._storage.read(_copy_of(name)) if content is None else content

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a small file: the old one stays until the copy is whole."""
        self._storage.write(_copy_of(name), content)
        self._storage.write(name, content)

    def names(self, directory: str = "") -> list[str]:
        """The names in a directory, in order; that of a copy counts as its file's."""
        return sorted({_original(one) for one in self._storage.names(directory)})

    def files(self, directory: str) -> Iterator[str]:
        """The files anywhere below a directory; no copies."""
        return (one for one in self._storage.files(directory) if _original(one) == one)

    def aside(self) -> str:
        """As in the storage."""
        return self._storage.aside()

    def rename(self, old: str, new: str) -> None:
        """As in the storage."""
        self._storage.rename(old, new)

    def delete(self, name: str) -> None:
        """Delete a file or directory; the copy first, or a kill would leave it to be read."""
        self._storage.delete(_copy_of(name))
        self._storage.delete(name)

    def locked(self, name: str) -> AbstractContextManager[object]:
        """As in the storage."""
        return self._storage.locked(name)

    def url(self, name: str = "") -> str:
        """As in the storage."""
        return self._storage.url(name)


def _copy_of(name: str) -> str:
    """The name of a file's copy; Spark passes over names that begin with a dot."""
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}.{last}{_COPY}"


def _original(name: str) -> str:
    """The name of the file whose copy this is; the name itself if it is no copy."""
    directory, slash, last = name.rpartition("/")
    if not (last.startswith(".") and last.endswith(_COPY)):
        return name
    return f"{directory}{slash}{last[1:].removesuffix(_COPY)}"
