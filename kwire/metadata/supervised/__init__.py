"""The metadata store of workers on one machine, which belongs to their supervisor.

- ``frames``: the format of their messages over a Unix socket.
- ``client``: the store of a worker.
- ``server``: the supervisor's side for one worker, with any other store.

A worker's connection is its session, so the supervisor knows at once when a worker is dead.
"""
