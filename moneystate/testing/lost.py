"""Finds statements of a step without effect: a new object assigned to the variable of a state, a value assigned to a
field that the record does not declare, and a `Reject` that is not raised. mypy also finds the second kind.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from moneystate.api.handles import Timer, Value
from moneystate.api.reject import Reject
from moneystate.runtime.plan import Plan

ASSIGNED, NO_FIELD, NOT_RAISED = "state replaced", "undeclared field", "not raised"
INSTEAD: Final = {
    ASSIGNED: "change its fields: a new object is not saved.",
    NO_FIELD: "declare it in the record: only declared fields are saved.",
    NOT_RAISED: "write raise ms.Reject(...).",
}


class Lost(NamedTuple):
    """A statement without effect."""

    function: Callable[..., Any]
    line: int  # in the function's source
    kind: str  # one of `INSTEAD`
    text: str


def lost_changes(plan: Plan) -> Iterator[Lost]:
    for source, handler in plan.service.handlers:
        try:
            lines, first = inspect.getsourcelines(handler.function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            parameters = inspect.signature(handler.function).parameters.values()
        except (OSError, TypeError, ValueError, SyntaxError):  # compiled, or a lambda in the middle of a line
            continue
        named = [parameter.name for parameter in parameters if parameter.kind < parameter.VAR_POSITIONAL]
        states = named[1 if isinstance(source, Timer) else 2 :]  # without states that the function takes as *args
        values = {
            name: {f.name for f in plan.kinds[state.name].codec.record.fields}
            for name, state in zip(states, handler.states, strict=False)
            if isinstance(state, Value)
        }
        names = getattr(handler.function, "__globals__", {})
        for node in ast.walk(tree):
            kind = _kind(node, values, names)
            if kind:
                line = first + getattr(node, "lineno", 1) - 1
                yield Lost(handler.function, line, kind, ast.unparse(node).splitlines()[0])


def _kind(node: ast.AST, values: dict[str, set[str]], names: dict[str, Any]) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return NOT_RAISED if _object(node.value.func, names) is Reject else ""
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        targets = [node.target]
    flat = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    for target in flat:
        if isinstance(target, ast.Name) and target.id in values:
            return ASSIGNED
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            fields = values.get(target.value.id)
            if fields is not None and target.attr not in fields:
                return NO_FIELD
    return ""


def _object(node: ast.expr, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return getattr(_object(node.value, names), node.attr, None) if isinstance(node, ast.Attribute) else None
