"""The metadata store of workers on one machine: their supervisor has it, each worker asks it.

- ``frames``: the format of what the two say to each other over a Unix socket.
- ``client``: the store of a worker.
- ``server``: what the supervisor does for one worker, with any other store.

A worker's connection is its session, so the supervisor knows at once when a worker is dead.
"""
