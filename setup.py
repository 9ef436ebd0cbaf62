"""The optional compiled build: ``KWIRE_COMPILED=1`` has mypyc compile kwire's hot modules.

Without it this file adds nothing, and kwire is pure Python: no compiler and no mypy are needed.
Both builds have the same sources and behave alike (docs/decisions/0013-a-compiled-build.md).

``mypyc`` reads the types it trusts from mypy, and mypy its options from pyproject.toml.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

# What profiles of a loaded broker show, and what that calls for every request: mypyc gains most
# where compiled modules call each other. What isn't here is called seldom, or is mostly coroutines
# or declarations, which it doesn't speed up.
COMPILED_MODULES = [
    "kwire/broker/fetch_link.py",
    "kwire/broker/follower_partition.py",
    "kwire/broker/followers.py",
    "kwire/broker/leader_partition.py",
    "kwire/broker/partition.py",
    "kwire/broker/plain_fetching.py",
    "kwire/broker/reach.py",
    "kwire/broker/replica_sessions.py",
    "kwire/connection/connection.py",
    "kwire/connection/deadlines.py",
    "kwire/connection/inbox.py",
    "kwire/connection/metering.py",
    "kwire/connection/outbox.py",
    "kwire/connection/pipeline.py",
    "kwire/connection/poller.py",
    "kwire/connection/rest.py",
    "kwire/connection/secured.py",
    "kwire/connection/serving.py",
    "kwire/connection/tls_buffers.py",
    "kwire/connection/waiting.py",
    "kwire/connection/watch.py",
    "kwire/coordinator/classic_group.py",
    "kwire/coordinator/classic_groups.py",
    "kwire/coordinator/classic_member.py",
    "kwire/coordinator/classic_protocol.py",
    "kwire/coordinator/effects.py",
    "kwire/coordinator/group_offsets.py",
    "kwire/coordinator/history.py",
    "kwire/coordinator/joining.py",
    "kwire/coordinator/membership.py",
    "kwire/coordinator/offsets.py",
    "kwire/coordinator/settling.py",
    "kwire/handlers/plain_fetch.py",
    "kwire/handlers/plain_fetch_answer.py",
    "kwire/handlers/plain_produce.py",
    "kwire/handlers/plain_produce_many.py",
    "kwire/handlers/plain_replica_answer.py",
    "kwire/handlers/plain_replica_fetch.py",
    "kwire/handlers/replica_fetch.py",
    "kwire/log/compaction/offset_map.py",
    "kwire/log/leader_epochs.py",
    "kwire/log/partition_log.py",
    "kwire/log/plain_append.py",
    "kwire/log/plain_batch.py",
    "kwire/log/producer_entry.py",
    "kwire/log/producer_state.py",
    "kwire/log/replication.py",
    "kwire/log/rolling.py",
    "kwire/log/segment.py",
    "kwire/log/sparse_index.py",
    "kwire/log/validation.py",
    "kwire/protocol/frame.py",
    "kwire/protocol/wire.py",
    "kwire/record/batch.py",
    "kwire/record/feed.py",
    "kwire/record/records.py",
    "kwire/record/spans.py",
    "kwire/record/varint.py",
    "kwire/record/walk.py",
    "kwire/runtime.py",
]

COMPILER_FAILED = """
kwire's compiled build needs a C compiler and Python's headers; what there is failed: {reason}
Install them (Debian and Ubuntu: apt install gcc python3-dev; macOS: xcode-select --install), or \
leave KWIRE_COMPILED out: kwire runs without them as well."""


class Compilation(build_ext):
    """Compiles; ends with a word on what to do where that can't be done."""

    def run(self) -> None:
        """Compile every extension."""
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            raise SystemExit(COMPILER_FAILED.format(reason=str(error)[:200])) from None


def try_compiler() -> None:
    """Compile next to nothing: who can't need not wait for mypyc to learn it, nor search for it."""
    with TemporaryDirectory() as directory:
        source = Path(directory, "nothing.c")
        source.write_text(
            "#include <Python.h>\nPyMODINIT_FUNC PyInit_nothing(void) { return NULL; }\n"
        )
        trial = Compilation(Distribution({"ext_modules": [Extension("nothing", [str(source)])]}))
        trial.build_temp = trial.build_lib = directory
        trial.ensure_finalized()
        trial.run()


options: dict[str, Any] = {}
if os.environ.get("KWIRE_COMPILED", "") not in ("", "0"):
    # Only this build needs mypy, and what kwire imports, for its types. pip runs this file to learn
    # of that and of the wheel's metadata too: then nothing is compiled.
    try:
        import tomllib
    except ModuleNotFoundError:  # of an older Python, which pip finds out about only after this
        raise SystemExit("kwire needs Python 3.11 or newer") from None
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    options["setup_requires"] = ["mypy>=2.0", *project["dependencies"]]
    if "bdist_wheel" in sys.argv:
        try_compiler()
        from mypyc.build import mypycify

        options["cmdclass"] = {"build_ext": Compilation}
        options["ext_modules"] = mypycify(
            COMPILED_MODULES, opt_level="3", debug_level="0", group_name="kwire"
        )
setup(**options)
