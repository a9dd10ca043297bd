"""Prepares declared queries for callers: turns their arguments and results into records."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, field, make_dataclass
from typing import Any, get_type_hints

from moneystate.errors import ServiceError
from moneystate.records.codec import Codec
from moneystate.records.shapes import Shapes

VALUE = "value"


class QueryPlan:
    """A query, ready to be called from outside."""

    def __init__(self, name: str, function: Callable[..., Any], shapes: Shapes, where: str) -> None:
        self.name = name
        self.function = function
        self.description = inspect.getdoc(function) or ""
        where = f"{where}: query {name!r}"
        parameters, result = _signature(function, where)
        self.names = [name for name, _, _ in parameters]
        title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        arguments = make_dataclass(f"{title}Arguments", parameters, frozen=True, kw_only=True)
        self.result_record = make_dataclass(f"{title}Result", [(VALUE, result)], frozen=True)
        self.arguments = Codec(shapes.record(arguments, where))  # of a record with a field for each argument
        self.result = Codec(shapes.record(self.result_record, where))  # of a record with the field `value`

    def parse_arguments(self, text: str) -> dict[str, Any]:
        """The arguments in a JSON object, by name. Raises Malformed."""
        arguments = self.arguments.from_json_text(text or "{}")
        return {name: getattr(arguments, name) for name in self.names}

    def unknown(self, names: set[str]) -> set[str]:
        """The member names in JSON that are not arguments of the query."""
        return names - {f.wire for f in self.arguments.record.fields}

    def result_of(self, value: Any) -> Any:
        """The query's return value as a record, in the form in which a caller gets it. Raises StepError if the declared
        type does not have it."""
        return self.result.decode(self.result.encode(self.result_record(value)))


def _signature(function: Callable[..., Any], where: str) -> tuple[list[tuple[str, Any, Any]], Any]:
    """Names, types and defaults of all parameters except the view, and the result's type."""
    do = "annotate each argument and the result with a type that a record field can have."
    try:
        hints = get_type_hints(function, include_extras=True)
        declared = list(inspect.signature(function).parameters.values())
    except (NameError, ValueError, TypeError) as e:
        raise ServiceError(f"{where}: a type in its signature is unknown: {e}.", do) from None
    if not declared:
        raise ServiceError(
            f"{where}: expected the parameter view, found no parameters.", "declare (view: ms.View, ...)."
        )
    parameters = []
    for parameter in declared[1:]:
        if parameter.name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ServiceError(f"{where}: {parameter} has no type.", do)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        parameters.append((parameter.name, hints[parameter.name], field(default=default)))
    if "return" not in hints:
        raise ServiceError(f"{where}: its result has no type.", do)
    return parameters, hints["return"]
