"""The cluster's truth: what exists (image), how it changes, who decides, where it is kept.

- ``image``, ``changes``, ``controller`` and ``store`` are pure.
- ``embedded`` keeps the changes in SQLite, for one process that is its own controller.
"""
