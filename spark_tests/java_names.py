"""Names of Java are looked up once in a run.

PySpark asks the JVM for a name each time that it is used, ``functions`` and ``col`` for every
column. Of a package Java knows that it is no class only after it has opened each of Spark's jars:
a seventh of the processor time of tests, who ask for a few names thousands of times.
"""

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

LASTING = (JavaClass, JavaMember, JavaPackage)
"""What a name stands for as long as the JVM runs; a value of a field may be another one later."""


def remember() -> None:
    """Keep what names stand for, from now on."""
    for of in (JVMView, JavaPackage, JavaClass):
        of.__getattr__ = _remembering(of.__getattr__)


def _remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(of: Any, name: str) -> Any:
        value = look_up(of, name)
        if isinstance(value, LASTING):
            vars(of)[name] = value  # where Python looks before it asks
        return value

    return found
