#!/bin/sh
# The Python of Spark's workers in tests: that of the lane, without archives on its path.
#
# Spark puts its own package before all else as an archive of sources, which are compiled at every
# start: 1.3 s of processor time instead of 0.4. A stream's worker has 10 s to connect, which no
# setting changes (createSimpleWorker in Spark's PythonWorkerFactory), and a machine with a load of
# 20 for each processor gives it half a second of them. Python 3.11 also reads the directories of
# all archives again before each task: 0.2 s. The lane has PySpark installed, so it needs none.
PYTHONPATH=$KWIRE_SPARK_PATH exec "$KWIRE_SPARK_PYTHON" "$@"
