"""Puts a bug into this process: into functions that are there, or into a file at its import."""

import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, FunctionType


def functions_by_file(folder: str) -> dict[str, list[FunctionType]]:
    """All functions whose source is below a folder, by the path of their file."""
    gc.unfreeze()  # else what was frozen isn't among the objects
    found: dict[str, list[FunctionType]] = {}
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(folder):
            found.setdefault(function.__code__.co_filename, []).append(function)
    gc.freeze()
    return found


def into_functions(functions: Sequence[FunctionType], file: str, old: str, new: str) -> bool:
    """Give the functions of a file the code that is another one in a new text of the same lines.

    False where there is none, or one can't have it, since other variables are in it.
    """
    before, after = _codes(file, old), _codes(file, new)
    changed = 0
    for function in functions:
        place = (function.__code__.co_qualname, function.__code__.co_firstlineno)
        if place in before and before[place] != after.get(place):
            try:
                function.__code__ = after[place]
            except (KeyError, ValueError):
                return False
            changed += 1
    return changed > 0


def _codes(file: str, text: str) -> dict[tuple[str, int], CodeType]:
    """The code of a module and of all functions in it, by their names and first lines."""
    left, found = [compile(text, file, "exec", dont_inherit=True)], {}
    while left:
        code = left.pop()
        found[code.co_qualname, code.co_firstlineno] = code
        left += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


class _Loader(SourceFileLoader):
    """Takes a text for that of its file."""

    def __init__(self, name: str, file: str, text: str) -> None:
        super().__init__(name, file)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._loader.name:
            return None
        return spec_from_file_location(fullname, self._loader.path, loader=self._loader)


def at_import(tree: Path, path: str, text: str) -> None:
    """From now on a file of a tree is imported with that text."""
    name = ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")
    sys.meta_path.insert(0, _Finder(_Loader(name, str(tree / path), text)))


def forget(*packages: str) -> None:
    """Have the modules of packages imported again."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
