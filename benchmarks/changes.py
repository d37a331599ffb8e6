"""The mutations of single lines that `benchmarks.mutation` makes: places and new text."""

import ast
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "is": "is not",
    "is not": "is",
    "in": "not in",
    "not in": "in",
}
BETWEEN = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "**": "*", "&": "|", "|": "&"}
JOINED = {"and": "or", "or": "and"}
CALLED = {
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
}
OPERATOR = re.compile(r"is not|not in|\*\*|//|[<>=!]=|[-+*/&|<>]|\b(?:is|in|and|or)\b")
Span = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """A part of one line of a file, written anew; one of the lines `executed` runs if it does."""

    kind: str
    file: str
    line: int
    executed: Span
    before: str
    after: str


def changes(file: str, source: str) -> Iterator[Change]:
    """Every change of the file; none in docstrings, messages, annotations and decorators."""
    # Columns of the tree count bytes.
    lines = [line.encode() for line in source.splitlines()]
    seen = set()
    for node, executed in _nodes(ast.parse(source)):
        for kind, first, last, new in _edits(node, lines):
            (row, start), (end_row, end) = first, last
            if row != end_row:
                continue
            line = lines[row - 1]
            after = line[:start] + new.encode() + line[end:]
            change = Change(kind, file, row, executed, line.decode(), after.decode())
            if change not in seen:
                seen.add(change)
                yield change


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, Span]]:
    """Nodes that compute, each with the lines of which one is executed where it is.

    Those are the lines of its statement; of the body, for a default of a function; and all lines of
    the file, for what an import executes.
    """
    everything = 1, sys.maxsize
    stack: list[tuple[ast.AST, Span, bool]] = [(tree, everything, False)]
    while stack:
        node, span, inside = stack.pop()
        yield node, span
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            continue  # its unions are of types
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "exc", "msg"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.JoinedStr) or not isinstance(child, ast.AST):
                    continue
                function = isinstance(node, ast.FunctionDef) and (inside or name == "body")
                if isinstance(child, ast.stmt) and (inside or function):
                    stack.append((child, _lines_of(child), True))
                elif isinstance(node, ast.FunctionDef) and name == "args":
                    stack.append((child, (node.body[0].lineno, _end(node)[0]), inside))
                else:
                    stack.append((child, span, inside))


def _lines_of(statement: ast.stmt) -> Span:
    """Without what is indented below it."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else _end(statement)[0]
    return statement.lineno, max(statement.lineno, last)


def _edits(node: ast.AST, lines: list[bytes]) -> Iterator[tuple[str, Span, Span, str]]:
    """(kind, first, last, text): what stands from first to last, (line, column), becomes text."""
    match node:
        case ast.Compare(left=left, comparators=others):
            for a, b in itertools.pairwise([left, *others]):
                yield from _operator("comparison", a, b, lines, COMPARED)
        case ast.BinOp(left=a, right=b) if not (_is_text(a) or _is_text(b)):
            yield from _operator("arithmetic", a, b, lines, BETWEEN)
        case ast.BoolOp(values=values):
            for a, b in itertools.pairwise(values):
                yield from _operator("logic", a, b, lines, JOINED)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            (row, start), size = _start(node), 4 if isinstance(node.op, ast.Not) else 1
            yield "sign", (row, start), (row, start + size), ""
        case ast.Constant(value=bool() as value):
            yield "boolean", _start(node), _end(node), str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "number", _start(node), _end(node), repr(value + 1)
        case ast.If(test=test, body=[ast.Raise() | ast.Return()], orelse=[]):
            yield "guard", _start(test), _end(test), "False"
        case ast.Call(func=func, args=args):
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            row, end = _end(func)
            if name in CALLED:
                yield "function", (row, end - len(name)), (row, end), CALLED[name]
            if name == "stop_gradient":
                yield "gradient", _start(func), _end(func), ""
            if (
                name != "isinstance"
                and len(args) > 1
                and not any(isinstance(a, ast.Starred) for a in args[-2:])
            ):
                a, b = args[-2:]
                text = [_text(lines, part) for part in (a, b)]
                if text[0] != text[1] and a.lineno == b.end_lineno:
                    between = lines[a.lineno - 1][a.end_col_offset : b.col_offset].decode()
                    yield "arguments", _start(a), _end(b), text[1] + between + text[0]


def _operator(
    kind: str, a: ast.expr, b: ast.expr, lines: list[bytes], others: dict[str, str]
) -> Iterator[tuple[str, Span, Span, str]]:
    (row, start), (last, end) = _end(a), _start(b)
    for at in range(row, last + 1):
        first, until = (start if at == row else 0), (end if at == last else None)
        text = lines[at - 1][first:until].split(b"#")[0].decode()
        found = OPERATOR.search(text)
        if found and found[0] in others:
            where = first + len(text[: found.start()].encode())
            yield kind, (at, where), (at, where + len(found[0])), others[found[0]]
            return


def _is_text(node: ast.expr) -> bool:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return constant or isinstance(node, ast.JoinedStr)


def _start(node: ast.AST) -> Span:
    return node.lineno, node.col_offset


def _end(node: ast.AST) -> Span:
    return node.end_lineno, node.end_col_offset


def _text(lines: list[bytes], node: ast.expr) -> str:
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
