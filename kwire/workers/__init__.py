"""Several brokers on one machine under one command: ``kwire serve --workers N``.

- ``settings``: the settings in which workers differ: node ids, directories, ports.
- ``directory``: the locks of the data directory, and the metadata that all workers share.
- ``template``: a process that has loaded all code and forks workers.
- ``worker``: one worker, a broker of a cluster whose store is the supervisor's.
- ``supervisor``: starts workers, serves them the store, and starts a dead worker again.

The command's process is the supervisor, the template is its child, workers are children of the
template. Decision 28 (docs/decisions/0028-workers-on-one-machine.md) has the reasons.
"""
