"""What Spark starts its Python workers with: its own daemon, without archives on the path.

A worker makes Python look for new modules before each task. Python 3.11 then reads the directories
of all archives on its path again, and Spark puts its own package and a jar with thousands of files
there: 0.2 s for each task, whatever it does. A lane has PySpark installed, so it needs none of
them.
"""

import sys

ARCHIVES = (".zip", ".jar")

sys.path[:] = [one for one in sys.path if not one.endswith(ARCHIVES)]
for place in [one for one in sys.path_importer_cache if one.endswith(ARCHIVES)]:
    del sys.path_importer_cache[place]

from pyspark.daemon import manager  # noqa: E402 - found by the new path

if __name__ == "__main__":
    manager()
