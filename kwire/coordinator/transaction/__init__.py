"""The transaction coordinator (KIP-98, KIP-890): the producers of transactions, and their ends.

``state`` is one transactional id and its transitions, ``records`` is its form in the log, and
``coordinator`` decides the effects of requests. ``kwire.broker.transactions`` drives it.
"""
