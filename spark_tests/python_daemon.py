"""What Spark forks its Python workers from: its own daemon, with more in memory.

After each task a worker collects garbage, which takes as long as the task where there is much to
look through. A worker is forked from the daemon: so the daemon imports what most workers need, and
freezes it, and the garbage collector passes over it.
"""

# ruff: noqa: F401 - imported for the workers
import gc

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
