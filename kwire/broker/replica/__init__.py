"""What replicates: the replicas of this broker in their roles, leaders' followers, and following.

Of the rest of the broker, this room knows ``partition`` and what is below it, the queue of changes
(``proposals``), and other brokers (``peers``, ``failure_detector``).
"""
