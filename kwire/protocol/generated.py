"""Functions compiled from generated source, with tracebacks that show it."""

from typing import Any


def compile_function(source: str, name: str, filename: str, namespace: dict[str, Any]) -> Any:
    """Run ``source`` in ``namespace`` and give back the function it defines as ``name``.

    ``filename`` names the source in tracebacks; it must be unlike any other.
    """
    import linecache  # only when something is compiled: it brings the tokenizer with it

    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
