"""Proves that the result of a function has nothing of personal fields: of an index, or of a declared query.

The function's syntax tree is evaluated with what is known of each value: it is *free* of personal data, it *holds*
personal data in certain places, or it is a known object of the program. Everything that is not on the lists here ends
the proof. So a function is found free only if no statement can have read a personal field, also by comparing or
sorting.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import operator
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Final

from moneystate.records.shapes import Record, Shape, Table, has_personal
from moneystate.runtime.function_tree import tree_of
from moneystate.runtime.personal_calls import COUNTS, PURE, Calls, IsOpen, ShapeOf, is_one_of, of_dict
from moneystate.runtime.personal_values import (
    FREE,
    Bound,
    Closure,
    Getter,
    Known,
    OfDict,
    OfView,
    Partly,
    Parts,
    ThatView,
    Unproven,
    free_all,
    inner_of,
    is_masked,
    items_of,
    joined,
    many,
    of_object,
    of_shape,
    truth,
)

MAX_CALLS: Final = 20  # one within the other


def index_is_free(by: Any, record: Record) -> bool:
    """Whether the values of an index have nothing of the record's personal fields."""
    if not has_personal(record):
        return True
    return _is_proven(lambda: _result(Proof(), by, [of_shape(record)], {}) == FREE)


def query_is_free(function: Any, names: list[str], result: Shape, shape_of: ShapeOf, is_open: IsOpen) -> bool:
    """Whether everything that is personal in the result of a query is in fields of `result` that are marked. `names`:
    of its parameters besides the view; `is_open`: whether an index needs no scope."""
    given = dict.fromkeys(names, FREE)
    return _is_proven(lambda: is_masked(_result(Proof(shape_of, is_open), function, [ThatView()], given), result))


def _is_proven(proof: Callable[[], bool]) -> bool:
    try:
        return proof()
    except (Unproven, RecursionError):
        return False


def _result(proof: Proof, function: Any, given: list[Any], named: dict[str, Any]) -> Any:
    if type(function) is MethodType:
        return _result(proof, function.__func__, [Known(function.__self__), *given], named)
    if type(function) is not FunctionType:
        raise Unproven("it is not a function of Python")
    return proof.call(function, given, named)


class Scope:
    """The local names of a function while it is evaluated."""

    def __init__(self, function: FunctionType, names: dict[str, Any]) -> None:
        self.function = function
        self.names = names
        self.returned: list[Any] = []

    def within(self, names: dict[str, Any]) -> Scope:
        scope = Scope(self.function, {**self.names, **names})
        scope.returned = self.returned
        return scope

    def set(self, name: str, value: Any) -> None:
        """A name keeps all values that it was ever given: whether and when a statement runs is not known."""
        self.names[name] = joined([self.names[name], value]) if name in self.names else value

    def get(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        code = self.function.__code__
        if name in code.co_varnames or name in code.co_cellvars:
            raise Unproven(f"{name} may not be set")
        if name in code.co_freevars:
            try:
                cell = (self.function.__closure__ or ())[code.co_freevars.index(name)]
                return of_object(cell.cell_contents)
            except ValueError:
                raise Unproven(f"{name} is not set yet") from None
        outside = self.function.__globals__
        if name not in outside and not hasattr(builtins, name):
            raise Unproven(f"{name} is not known")
        return of_object(outside[name] if name in outside else getattr(builtins, name))


class Proof(Calls):
    """Evaluates functions. Raises Unproven."""

    def call(self, function: FunctionType, given: list[Any], named: dict[str, Any]) -> Any:
        tree = tree_of(function)
        if tree is None:
            raise Unproven(f"{function.__name__}: its source is not known")
        if self.depth == MAX_CALLS:
            raise Unproven(f"{function.__name__}: too many calls, one within the other")
        self.depth += 1
        try:
            return self._run(tree, Scope(function, _bound(function, given, named)))
        finally:
            self.depth -= 1

    def _run(self, tree: ast.FunctionDef | ast.Lambda, scope: Scope) -> Any:
        if isinstance(tree, ast.Lambda):
            return self.value(tree.body, scope)
        if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(tree)):
            raise Unproven("a generator")
        self._block(tree.body, scope)
        return joined([*scope.returned, FREE])

    # Statements

    def _block(self, statements: list[ast.stmt], scope: Scope) -> None:
        for statement in statements:
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.Return(value=value):
                scope.returned.append(FREE if value is None else self.value(value, scope))
            case ast.Expr(value=value):
                self.value(value, scope)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, self.value(value, scope), scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.value(value, scope), scope)
            case ast.AugAssign(target=target, value=value):
                self._free(value, scope)
                self._free(target, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                self._test(test, scope)
                self._branches([body, orelse], scope)
            case ast.For(target=target, iter=over, body=body, orelse=orelse):
                self._loop(lambda: self._bind(target, items_of(self.value(over, scope)), scope), body, scope)
                self._block(orelse, scope)
            case ast.While(test=test, body=body, orelse=orelse):
                self._loop(lambda: self._test(test, scope), body, scope)
                self._block(orelse, scope)
            case ast.Raise(exc=ast.expr() as error, cause=None):
                self._free(error, scope)
            case ast.Assert(test=test, msg=message):
                self._test(test, scope)
                if message is not None:
                    self._free(message, scope)
            case ast.Pass() | ast.Break() | ast.Continue():
                return
            case _:
                raise Unproven(f"line {node.lineno}: a statement that is not looked into")

    def _branches(self, branches: list[list[ast.stmt]], scope: Scope) -> None:
        """Any of the branches runs. A name has afterwards what any of them gave it."""
        scopes = [scope.within({}) for _ in branches]
        for branch, inner in zip(branches, scopes, strict=True):
            self._block(branch, inner)
        for name in {name for inner in scopes for name in inner.names}:
            scope.names[name] = joined([inner.names[name] for inner in scopes if name in inner.names])

    def _loop(self, begin: Callable[[], None], body: list[ast.stmt], scope: Scope) -> None:
        """Any number of rounds: until another round changes no name."""
        before: dict[str, Any] | None = None
        while scope.names != before:
            before = dict(scope.names)
            begin()
            self._branches([body, []], scope)

    def _test(self, node: ast.expr, scope: Scope) -> Any:
        return truth(self.value(node, scope))

    def _bind(self, target: ast.expr, value: Any, scope: Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.set(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                parts = value.parts if isinstance(value, Parts) and len(value.parts) == len(targets) else None
                for n, one in enumerate(targets):
                    self._bind(one, items_of(value) if parts is None else parts[n], scope)
            case ast.Subscript(value=container, slice=place) if value == FREE:
                self._free(container, scope)
                self._free(place, scope)
            case _:
                raise Unproven(f"line {target.lineno}: an assignment that is not looked into")

    # Expressions

    def _free(self, node: ast.expr, scope: Scope) -> Any:
        if self.value(node, scope) != FREE:
            raise Unproven(f"line {node.lineno}: a value that may have personal fields is used as a whole")
        return FREE

    def _all_free(self, nodes: Sequence[ast.expr | None], scope: Scope) -> Any:
        for node in nodes:
            if node is not None:
                self._free(node, scope)
        return FREE

    def value(self, node: ast.expr, scope: Scope) -> Any:
        match node:
            case ast.Constant():
                return FREE
            case ast.Name(id=name):
                return scope.get(name)
            case ast.Attribute(value=of, attr=name):
                return self.attribute(self.value(of, scope), name)
            case ast.Call():
                return self._call(node, scope)
            case ast.Subscript(value=of, slice=place):
                return self._subscript(self.value(of, scope), place, scope)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others, scope)
            case ast.BoolOp(op=op, values=values):
                given = [self.value(one, scope) for one in values]
                tested = [truth(one) for one in given[:-1]]  # of `and`, those are the result only if they are empty
                return joined([*(tested if isinstance(op, ast.And) else given[:-1]), given[-1]])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._test(operand, scope)
            case ast.UnaryOp(operand=operand):
                return self._free(operand, scope)
            case ast.BinOp(left=left, right=right):
                return self._all_free([left, right], scope)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._test(test, scope)
                return joined([self.value(body, scope), self.value(orelse, scope)])
            case ast.Tuple(elts=elements):
                parts = [self._element(one, scope) for one in elements]
                return FREE if all(one == FREE for one in parts) else Parts(parts)
            case ast.List(elts=elements):
                return many([self._element(one, scope) for one in elements])
            case ast.Set(elts=elements):
                return self._all_free(elements, scope)
            case ast.Dict(keys=keys, values=values):
                return self._all_free([*keys, *values], scope)
            case ast.ListComp(elt=element, generators=loops) | ast.GeneratorExp(elt=element, generators=loops):
                return many([self.value(element, self._loops(loops, scope))])
            case ast.SetComp(elt=element, generators=loops):
                return self._free(element, self._loops(loops, scope))
            case ast.DictComp(key=key, value=value, generators=loops):
                return self._all_free([key, value], self._loops(loops, scope))
            case ast.JoinedStr(values=values):
                return self._all_free(values, scope)
            case ast.FormattedValue(value=value, format_spec=spec):
                return self._all_free([value, spec], scope)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return self._all_free([lower, upper, step], scope)
            case ast.NamedExpr(target=target, value=value):
                scope.set(target.id, self.value(value, scope))
                return scope.get(target.id)
            case ast.Lambda():
                return Closure(node, scope)
        raise Unproven(f"line {node.lineno}: an expression that is not looked into")

    def _element(self, node: ast.expr, scope: Scope) -> Any:
        return self._free(node.value, scope) if isinstance(node, ast.Starred) else self.value(node, scope)

    def _loops(self, loops: list[ast.comprehension], scope: Scope) -> Scope:
        inner = scope.within({})
        for loop in loops:
            if any(isinstance(node, ast.NamedExpr) for node in ast.walk(loop)):
                raise Unproven("a name that is set within a comprehension")
            self._bind(loop.target, items_of(self.value(loop.iter, inner)), inner)
            for condition in loop.ifs:
                self._test(condition, inner)
        return inner

    def _compare(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], scope: Scope) -> Any:
        if len(ops) == 1 and isinstance(ops[0], (ast.Is, ast.IsNot)):
            self.value(left, scope)
            self.value(others[0], scope)
            return FREE
        return self._all_free([left, *others], scope)

    def _subscript(self, of: Any, place: ast.expr, scope: Scope) -> Any:
        self._free(place, scope)
        if isinstance(of, Parts) and isinstance(place, ast.Constant) and type(place.value) is int:
            return of.parts[place.value] if -len(of.parts) <= place.value < len(of.parts) else FREE
        if isinstance(of, Partly) and isinstance(of.shape, Table):
            return inner_of(of.shape)
        item = items_of(of)
        return many([item]) if isinstance(place, ast.Slice) else item

    # Calls

    def _call(self, node: ast.Call, scope: Scope) -> Any:
        called = self.value(node.func, scope)
        if isinstance(called, Known) and called.object is operator.attrgetter:
            return Getter([_text(one) for one in node.args])
        if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
            raise Unproven(f"line {node.lineno}: any number of arguments")
        given = [self.value(one, scope) for one in node.args]
        named = {str(one.arg): self.value(one.value, scope) for one in node.keywords}
        match called:
            case Bound(function, owner):
                return self.call(function, [owner, *given], named)
            case OfView(name):
                return self.read(name, [*given, *named.values()])
            case OfDict(name, table):
                return of_dict(name, table, [*given, *named.values()])
            case Getter(paths):
                return self.got(paths, given)
            case Known(target):
                return self.known_call(target, given, named)
        if called != FREE:
            raise Unproven(f"line {node.lineno}: a call that is not looked into")
        return free_all([*given, *named.values()])

    def check_key(self, key: Any) -> None:
        if isinstance(key, Closure) and len(key.tree.args.args) == 1:
            self._free(key.tree.body, key.scope.within({key.tree.args.args[0].arg: FREE}))
        elif not isinstance(key, Known) or not is_one_of(key.object, (*COUNTS, *PURE)):
            raise Unproven("key=: not looked into")


def _bound(function: FunctionType, given: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """The function's parameters, with the arguments or their defaults."""
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        arguments = signature.bind(*given, **named)
    except TypeError as e:
        raise Unproven(f"{function.__name__}: {e}") from None
    values: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise Unproven(f"{function.__name__}: any number of arguments")
        values[name] = arguments.arguments[name] if name in arguments.arguments else of_object(parameter.default)
    return values


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise Unproven(f"line {node.lineno}: attrgetter of names that are not written there")
