"""Small bugs that can be put into a source file, each as a change of a few characters.

A mutation is one of these: a comparison turned round or moved by one, ``and`` for ``or``, a
``not`` left out, ``+`` for ``-``, a constant changed, ``[0]`` for ``[-1]``, a statement left out.
The change is made in the text, so the rest of the file keeps its lines.

Left alone is what no test can or should see: docstrings, annotations, decorators, assertions,
imports for type checkers, and log messages.
"""

import ast
import hashlib
import re
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], list[tuple[str, str]]] = {
    ast.Eq: [("==", "!=")],
    ast.NotEq: [("!=", "==")],
    ast.Lt: [("<", ">="), ("<", "<=")],
    ast.LtE: [("<=", ">"), ("<=", "<")],
    ast.Gt: [(">", "<="), (">", ">=")],
    ast.GtE: [(">=", "<"), (">=", ">")],
    ast.Is: [("is", "is not")],
    ast.IsNot: [(r"is\s+not", "is")],
    ast.In: [("in", "not in")],
    ast.NotIn: [(r"not\s+in", "in")],
}
LOG_CALL = re.compile(r"_?log(ger)?\.(debug|info|warning|error|exception)")
LEFT_OUT = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Raise)


@dataclass(frozen=True)
class Mutation:
    """``text[start:end]`` becomes ``new`` in the file ``path``.

    ``function`` is the first line of the function around it, 0 for what runs at the import.
    """

    path: str
    line: int
    function: int
    kind: str
    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        """The file's text with the bug in it; each line behind it keeps its number."""
        lines = text.count("\n", self.start, self.end) - self.new.count("\n")
        return text[: self.start] + self.new + "\n" * lines + text[self.end :]

    def changed_line(self, text: str) -> str:
        """The line as it is with the bug in it."""
        return self.apply(text).splitlines()[text.count("\n", 0, self.start)].strip()

    def key(self, text: str) -> str:
        """A name that stays as long as the file's text does."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.path}:{self.start}:{self.end}:{self.new}:{digest}"


class _Finder(ast.NodeVisitor):
    """Walks a syntax tree and collects the mutations of its file."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.found: list[Mutation] = []
        self.function = 0
        self.line_starts = [0]
        for line in text.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.lines = text.splitlines()

    def place(self, line: int, column: int) -> int:
        """Where a line and a column of the syntax tree, which counts bytes, are in the text."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.line_starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends in the text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.place(node.lineno, node.col_offset),
            self.place(node.end_lineno, node.end_col_offset),
        )

    def add(self, node: ast.expr | ast.stmt, kind: str, start: int, end: int, new: str) -> None:
        """Note a mutation."""
        line = node.lineno
        self.found.append(Mutation(self.path, line, self.function, kind, start, end, new))

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        """Note that the operator between two operands becomes another one."""
        gap = (self.span(left)[1], self.span(right)[0])
        text = self.text[gap[0] : gap[1]]
        word = rf"\b{old}\b" if old[0].isalpha() else re.escape(old)
        match = re.search(word, text)
        if match is not None and "#" not in text:
            self.add(left, kind, gap[0] + match.start(), gap[0] + match.end(), new)

    def visit_Compare(self, node: ast.Compare) -> None:
        """``==`` for ``!=``, ``<`` for ``>=`` and ``<=``, ``is`` for ``is not``, and so on."""
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            for place, (old, new) in enumerate(COMPARISONS[type(operator)]):
                kind = "comparison moved by one" if place else "comparison turned round"
                self.between(kind, left, right, old, new)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """``and`` for ``or``."""
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between("and/or", left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """``+`` for ``-``."""
        is_text = any(
            isinstance(side, ast.JoinedStr)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if isinstance(node.op, ast.Add | ast.Sub) and not is_text:
            old, new = ("+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
            self.between("plus/minus", node.left, node.right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """A ``not`` less."""
        if isinstance(node.op, ast.Not):
            start = self.span(node)[0]
            self.add(node, "not left out", start, start + len("not"), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """``True`` for ``False``, a number one larger."""
        start, end = self.span(node)
        if isinstance(node.value, bool):
            self.add(node, "constant changed", start, end, str(not node.value))
        elif isinstance(node.value, int):
            self.add(node, "constant changed", start, end, str(node.value + 1))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """The last element for the first, and the first for the last."""
        written = ast.unparse(node.slice)
        if written in ("0", "-1"):
            new = "-1" if written == "0" else "0"
            only_one = isinstance(node.value, ast.Call) and "unpack" in ast.unparse(node.value.func)
            if not only_one:
                self.add(node, "other end", *self.span(node.slice), new)
            self.visit(node.value)
        else:
            self.generic_visit(node)

    def leave_out(self, body: list[ast.stmt]) -> None:
        """Note each statement of a function's body that can be left out."""
        for node in body:
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node, LEFT_OUT) and not is_text:
                self.add(node, "statement left out", *self.span(node), "pass")

    def generic_visit(self, node: ast.AST) -> None:
        """Go on with what a test can see."""
        outside = self.function
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.function = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            else:
                self.function = outside
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            if not isinstance(value, list):
                value = [value]
            elif name in ("body", "orelse", "finalbody") and not isinstance(
                node, ast.Module | ast.ClassDef
            ):
                self.leave_out([n for n in value if not _is_hidden(n)])
            for child in value:
                if isinstance(child, ast.AST) and not _is_hidden(child):
                    self.visit(child)
        self.function = outside


def _is_hidden(node: ast.AST) -> bool:
    """Assertions, log messages, imports for type checkers."""
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return LOG_CALL.fullmatch(ast.unparse(node.value.func)) is not None
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def mutations_of(path: str, text: str) -> list[Mutation]:
    """Every mutation of a file; a few of them are no Python any more."""
    finder = _Finder(path, text)
    finder.visit(ast.parse(text))
    return finder.found


def is_python(path: str, text: str) -> bool:
    """Whether a text can be compiled."""
    try:
        compile(text, path, "exec")
    except SyntaxError:
        return False
    return True
