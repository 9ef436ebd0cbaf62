"""Compiles generated source into functions; tracebacks show the lines of the source."""

from typing import Any


def compile_function(source: str, name: str, filename: str, namespace: dict[str, Any]) -> Any:
    """Run ``source`` in ``namespace`` and return the function that it defines as ``name``.

    ``filename`` names the source in tracebacks; every source needs another one.
    """
    import linecache  # imported late, because it imports the tokenizer

    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
