"""Finds code in a service's functions that may make results depend on more than the logs, or has no effect.

The check is not complete. It resolves names in the imported module and follows calls into functions of the service's
own packages. It does not see code that is called in other ways. `moneystate.testing.generated` runs the service
instead.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from moneystate.api.service import Service
from moneystate.records.shapes import Maybe, Plain, Record
from moneystate.runtime.job import functions_of
from moneystate.runtime.plan import Plan
from moneystate.testing import lost

CLOCK, RANDOM, IO, SET, FLOAT, HASH, KEPT = "clock", "random", "I/O", "set order", "float sum", "hash", "kept in module"
INSTEAD: Final[Mapping[str, str]] = {
    CLOCK: "use ctx.now.",
    RANDOM: "derive it from the record.",
    IO: "ask other services through a topic.",
    SET: "iterate over sorted(...).",
    FLOAT: "sum whole numbers or ms.Decimal: a sum of floats depends on its order.",
    HASH: "use the value itself: hashes differ between processes.",
    KEPT: "keep it in a value or a map.",
    **lost.INSTEAD,
}
_TIME_OF_DAY: Final = {"now", "utcnow", "today"}
_IO_MODULES: Final = {
    "_io", "io", "os", "posix", "socket", "_socket", "ssl", "subprocess", "urllib", "http", "requests", "httpx",
    "aiohttp", "shutil", "sqlite3", "tempfile", "logging", "pathlib", "asyncio", "threading", "multiprocessing",
}  # fmt: skip
_TAKES_ORDER: Final = {"list", "tuple", "iter", "next", "enumerate", "sum", "reversed", "zip", "map"}
_CHANGES: Final = {"append", "add", "update", "pop", "extend", "insert", "remove", "setdefault", "clear", "discard"}


class Found(NamedTuple):
    """Code that may make results depend on more than the logs, or has no effect."""

    place: str  # file and line
    function: str
    kind: str  # one of `INSTEAD`
    text: str  # the code

    def line(self) -> str:
        return f"{self.place}: {self.function}: {self.kind}: {self.text}. Do: {INSTEAD[self.kind]}"


class ImpureWarning(UserWarning):
    """Code of a service that `moneystate check` would report."""


_warned: Final[set[frozenset[Any]]] = set()  # the functions of each service that was looked at


def warn_once(plan: Plan) -> None:
    """Warns about the findings, once in a process for services of the same functions."""
    functions = frozenset(function.__code__ for function in functions_of(plan.service))
    if functions not in _warned:
        _warned.add(functions)
        for one in findings(plan.service, plan):
            warnings.warn(one.line(), ImpureWarning, stacklevel=3)


def findings(service: Service[Any], plan: Plan | None = None) -> list[Found]:
    """The findings in the service's functions, and in functions of its own package that they call. `plan`: of the
    service, if there is one already."""
    plan = plan or Plan(service)
    floats = _float_fields(plan)
    pending: list[Callable[..., Any]] = [*functions_of(service)]
    visited: set[Callable[..., Any]] = set()
    results: list[Found] = []
    while pending:
        function = pending.pop()
        if function in visited:
            continue
        visited.add(function)
        checked = _FunctionCheck(function, floats)
        results += checked.findings
        pending += checked.calls
    for change in lost.lost_changes(plan):
        file = inspect.getsourcefile(change.function) or "?"
        results.append(Found(f"{file}:{change.line}", change.function.__name__, change.kind, change.text))
    return sorted(dict.fromkeys(results))


def _float_fields(plan: Plan) -> set[str]:
    records = [kind.codec.record for kind in plan.kinds.values()]
    records += [planned.codec.record for inputs in plan.inputs.values() for planned in inputs.values()]
    return {f.name for record in records for f in _fields(record) if _is_float(f.shape)}


def _fields(record: Record) -> Iterator[Any]:
    for f in record.fields:
        yield f
        inner = f.shape.inner if isinstance(f.shape, Maybe) else f.shape
        if isinstance(inner, Record):
            yield from _fields(inner)


def _is_float(shape: Any) -> bool:
    return (shape.inner if isinstance(shape, Maybe) else shape) == Plain("double")


class _FunctionCheck(ast.NodeVisitor):
    """Checks one function."""

    def __init__(self, function: Callable[..., Any], floats: set[str]) -> None:
        self.function = function
        self.floats = floats
        self.myself = getattr(function, "__self__", None)  # the object of a method
        self.findings: list[Found] = []
        self.calls: list[Callable[..., Any]] = []  # functions of its package that it names
        self.sets: set[str] = set()  # local variables with sets
        self.local: set[str] = set()  # all local variables
        try:
            lines, self.first = inspect.getsourcelines(function)
            self.file = inspect.getsourcefile(function) or "?"
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):  # compiled, or a lambda in the middle of a line
            return
        self.names = {**vars(builtins), **getattr(function, "__globals__", {})}
        self.local = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.local |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if isinstance(function, MethodType):
            self.names[function.__code__.co_varnames[0]] = self.myself
            self.local.discard(function.__code__.co_varnames[0])
        self.visit(tree)

    def _add(self, node: ast.AST, kind: str) -> None:
        line = self.first + getattr(node, "lineno", 1) - 1
        name = getattr(self.function, "__name__", "?")
        self.findings.append(Found(f"{self.file}:{line}", name, kind, ast.unparse(node).splitlines()[0]))

    def _object(self, node: ast.expr) -> Any:
        """The object that a name or attribute path stands for in the module. None: it is not known."""
        if isinstance(node, ast.Name):
            return None if node.id in self.local else self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            value = self._object(node.value)
            return None if value is None else _member(value, node.attr)
        return None

    # The checks

    def visit_Name(self, node: ast.Name) -> None:
        self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._named(node):
            self.generic_visit(node)

    def _named(self, node: ast.Name | ast.Attribute) -> bool:
        named = self._object(node)
        kind = None if named is None else _kind(named)
        if kind is not None:
            self._add(node, kind)
        elif isinstance(named, (FunctionType, MethodType)) and _package(named) == _package(self.function):
            self.calls.append(named)
        return kind is not None

    def visit_Call(self, node: ast.Call) -> None:
        called = getattr(node.func, "id", "")
        if called in _TAKES_ORDER and any(self._is_set(argument) for argument in node.args):
            self._add(node, SET)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "join" and any(self._is_set(argument) for argument in node.args):
                self._add(node, SET)
            if node.func.attr == "pop" and not node.args and self._is_set(node.func.value):
                self._add(node, SET)
            if node.func.attr in _CHANGES and isinstance(self._object(node.func.value), (dict, list, set)):
                self._add(node, KEPT)
        if called == "sum" and any(self._has_float(argument) for argument in node.args):
            self._add(node, FLOAT)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and self._is_set(node.value):
                self.sets.add(target.id)
            self._check_kept(node, target)
        self.generic_visit(node)

    def _check_kept(self, node: ast.AST, target: ast.expr) -> None:
        """Finds what is set in a collection of the module, or in the object of a method."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._check_kept(node, one)
        if not isinstance(target, (ast.Subscript, ast.Attribute)):
            return
        value, root = self._object(target.value), target.value
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        is_own = self.myself is not None and self._object(root) is self.myself
        if is_own or (isinstance(target, ast.Subscript) and isinstance(value, (dict, list))):
            self._add(node, KEPT)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._check_kept(node, node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._check_kept(node, target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, (ast.Add, ast.Sub)) and (self._has_float(node.target) or self._has_float(node.value)):
            self._add(node, FLOAT)
        self._check_kept(node, node.target)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._add(node, KEPT)

    def visit_For(self, node: ast.For) -> None:
        self._check_kept(node, node.target)
        if self._is_set(node.iter):
            self._add(node.iter, SET)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if self._is_set(node.iter):
            self._add(node.iter, SET)
        self.generic_visit(node)

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, (ast.Set, ast.SetComp)):
            return True
        if isinstance(node, ast.Call):
            return getattr(node.func, "id", "") in ("set", "frozenset")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)):
            return self._is_set(node.left) or self._is_set(node.right)
        if isinstance(node, ast.Name) and node.id in self.sets:
            return True
        return isinstance(self._object(node), (set, frozenset))

    def _has_float(self, node: ast.expr) -> bool:
        return any(
            (isinstance(part, ast.Attribute) and part.attr in self.floats)
            or (isinstance(part, ast.Constant) and isinstance(part.value, float))
            for part in ast.walk(node)
        )


def _member(value: Any, name: str) -> Any:
    """A member of an object. A property is the method that gets it, which is not called."""
    member = inspect.getattr_static(type(value), name, None)
    if isinstance(member, property) and member.fget is not None:
        return MethodType(member.fget, value)
    return MethodType(member.func, value) if isinstance(member, cached_property) else getattr(value, name, None)


def _package(function: Callable[..., Any]) -> str:
    return (function.__module__ or "").partition(".")[0]


def _kind(named: Any) -> str | None:
    if isinstance(named, ModuleType):
        return None  # a module itself does nothing; only its members do
    name = getattr(named, "__name__", "")
    if named is hash or named is id:
        return HASH
    if named in (open, print, input):
        return IO
    module = _module_of(named)
    root = module.partition(".")[0]
    if root in ("time", "_time"):
        return CLOCK if callable(named) and name not in ("gmtime", "strftime", "strptime", "mktime") else None
    if root in ("datetime", "_datetime"):
        return CLOCK if name in _TIME_OF_DAY else None
    if root in ("random", "_random", "secrets") or (root == "uuid" and name in ("uuid1", "uuid4")) or name == "urandom":
        return RANDOM
    return IO if root in _IO_MODULES and not isinstance(named, type) else None


def _module_of(named: Any) -> str:
    """The module that defines a function, or the class or object that a method belongs to."""
    bound = getattr(named, "__self__", None)
    if isinstance(bound, type):
        return bound.__module__
    if bound is not None and not isinstance(bound, ModuleType):
        return type(bound).__module__
    return getattr(named, "__module__", None) or type(named).__module__
