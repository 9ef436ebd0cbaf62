"""Streams groups (KIP-1071): members that share out the tasks of a Kafka Streams application.

PURE, as all coordinators: (request, now) → records, reply, and work; ``replay(record)``. A member
sends the application's *topology*, whose parts are subtopologies; a subtopology has one *task* for
each partition that it reads. ``topology`` says how many tasks there are and which internal topics
they need, ``assignors`` shares the tasks out.
"""
