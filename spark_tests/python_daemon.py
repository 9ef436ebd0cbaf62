"""What Spark starts its Python workers with: its own daemon, without archives on the path.

A worker makes Python look for new modules before each task. Python 3.11 then reads the directories
of all archives on its path again, and Spark puts its own package and a jar with thousands of files
there: 0.2 s for each task, whatever it does. A lane has PySpark installed, so it needs none of
them.

After each task a worker collects garbage, which takes as long as the task where there is much to
look through. A worker is forked from the daemon: so the daemon imports what most workers need, and
freezes it, and the garbage collector passes over it.
"""

import gc
import sys

ARCHIVES = (".zip", ".jar")

sys.path[:] = [one for one in sys.path if not one.endswith(ARCHIVES)]
for place in [one for one in sys.path_importer_cache if one.endswith(ARCHIVES)]:
    del sys.path_importer_cache[place]

# ruff: noqa: E402, F401 - found by the new path, and imported for the workers
import pandas
import pyarrow
from pyspark.daemon import manager

import kwire.spark.decode.in_python
import kwire.spark.segments.reading
import kwire.spark.segments.source

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
