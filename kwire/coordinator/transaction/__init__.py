"""The transaction coordinator (KIP-98, KIP-890): who writes in which transaction, and how it ends.

``state`` is one transactional id and its transitions, ``records`` its form in the log, and
``coordinator`` decides what a request leads to. ``kwire.broker.transactions`` drives it.
"""
