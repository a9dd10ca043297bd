"""What a step writes and nothing keeps: a state that is assigned anew, a field that its record does not have, and a
`Reject` that is not raised. mypy finds the second one, too.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from moneystate.api.handles import Value
from moneystate.api.plan import Plan
from moneystate.api.reject import Reject

ASSIGNED, NO_FIELD, NOT_RAISED = "state assigned anew", "no such field", "not raised"
INSTEAD: Final = {
    ASSIGNED: "change its fields in place: another object is not kept.",
    NO_FIELD: "declare it in the record: only its fields are kept.",
    NOT_RAISED: "write raise ms.Reject(...).",
}


class Lost(NamedTuple):
    """`line`: of the function's source; `kind`: one of `INSTEAD`."""

    function: Callable[..., Any]
    line: int
    kind: str
    text: str


def lost_changes(plan: Plan) -> Iterator[Lost]:
    for _, handler in plan.service.handlers:
        try:
            lines, first = inspect.getsourcelines(handler.function)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            parameters = list(inspect.signature(handler.function).parameters)
        except (OSError, TypeError, ValueError, SyntaxError):  # compiled, or a lambda in the middle of a line
            continue
        states = parameters[len(parameters) - len(handler.states) :]
        values = {
            name: {f.name for f in plan.kinds[state.name].codec.record.fields}
            for name, state in zip(states, handler.states, strict=True)
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
