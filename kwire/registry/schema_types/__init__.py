"""The types of schemas: how each is parsed, what makes two the same, what reads what.

``parsing.parse`` is the entry for all types; ``kwire.registry.compatibility`` compares versions.
"""
