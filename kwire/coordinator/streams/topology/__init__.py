"""From a topology as a member sent it to tasks and internal topics, with the cluster's topics.

Rules:

- *Source topics* are the user's and must exist. A *repartition topic* is internal: one subtopology
  writes it (its sink), another one reads it (its source). A *changelog topic* is internal and keeps
  the state of a store.
- A topology is *ready* if all topics exist with the numbers of partitions that it asks for. Tasks
  of a topology that isn't ready aren't assigned.
"""
