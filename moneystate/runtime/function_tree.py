"""Finds the syntax tree of a function.

The tree is that of the code that runs: the file is compiled, and the function's code must be a part of the result.
There is no tree without a source file, for compiled functions, and if the file was changed after the import.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import NamedTuple

Tree = ast.FunctionDef | ast.Lambda
Span = tuple[int, int, int | None, int | None]  # line and column where it begins, and where it ends
LAMBDA = "<lambda>"


class _File(NamedTuple):
    trees: list[Tree]
    codes: list[CodeType]


def tree_of(function: FunctionType) -> Tree | None:
    code = function.__code__
    try:
        path = inspect.getsourcefile(function)
        file = None if path is None else _file("".join(linecache.getlines(path)), path)
    except (TypeError, OSError, SyntaxError, ValueError, RecursionError):
        return None
    if file is None or code not in file.codes:
        return None
    there = [tree for tree in file.trees if _name(tree) == code.co_name and _first_line(tree) == code.co_firstlineno]
    if code.co_name == LAMBDA and len(there) > 1:
        there = _lambdas(there, code)
    return there[0] if len(there) == 1 else None


def _lambdas(there: list[Tree], code: CodeType) -> list[Tree]:
    """Returns those lambdas of a line that have this code. Python 3.12 does not say where a constant is returned, so
    a lambda that is a constant is found by the constant. Equal ones are the same."""
    place = _place_of_code(code)
    if place is not None:
        return [tree for tree in there if _place(tree) == place]
    return [tree for tree in there if _content(_code_alone(tree)) == _content(code)][:1]


def _code_alone(tree: Tree) -> CodeType:
    assert isinstance(tree, ast.Lambda)
    return next(_codes(compile(ast.Expression(tree), "", "eval", dont_inherit=True)))


def _content(code: CodeType) -> tuple[bytes, str]:
    return code.co_code, repr(code.co_consts)  # as text: 1, 1.0 and True are equal


@lru_cache(maxsize=64)
def _file(text: str, path: str) -> _File:
    tree = ast.parse(text)
    trees = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    return _File(trees, list(_codes(compile(text, path, "exec", dont_inherit=True))))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _name(tree: Tree) -> str:
    return LAMBDA if isinstance(tree, ast.Lambda) else tree.name


def _first_line(tree: Tree) -> int:
    decorators = [] if isinstance(tree, ast.Lambda) else tree.decorator_list
    return min([tree.lineno, *(decorator.lineno for decorator in decorators)])


def _place(tree: Tree) -> Span:
    body = tree.body
    assert isinstance(body, ast.expr)
    return body.lineno, body.col_offset, body.end_lineno, body.end_col_offset


def _place_of_code(code: CodeType) -> Span | None:
    """Returns where the expression of a lambda begins and ends; None: the code does not say."""
    begin: tuple[int, int] | None = None
    end: tuple[int, int] | None = None
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None or column == end_column:
            continue
        begin = (line, column) if begin is None else min(begin, (line, column))
        end = (end_line, end_column) if end is None else max(end, (end_line, end_column))
    return None if begin is None or end is None else (*begin, *end)
