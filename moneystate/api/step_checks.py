"""Checks of the functions and the rules that a service is given. mypy finds more mistakes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NoReturn, get_type_hints

from moneystate.api.handles import Input, MapTimer
from moneystate.api.rules import problem_of

Fail = Callable[[str, str], NoReturn]
"""Raises the service's error: the problem, and what to do."""


def check_parameters(
    fail: Fail, source: Any, states: tuple[Any, ...], function: Any, name: str, lookup: Any = None
) -> None:
    """Checks that the function takes what its source and its states give it."""
    parameters = ["ctx"]
    if isinstance(source, Input):
        parameters.append(source.record.__name__)
    if lookup is not None:
        parameters.append("held")
    elif isinstance(source, MapTimer):
        parameters.append("id")
    parameters.extend([state.name for state in states])
    check_signature(fail, function, parameters, name)


def check_types(fail: Fail, sources: list[Any], function: Any, name: str) -> None:
    """Checks the annotations that the function has. mypy finds more mistakes."""
    try:
        hints = get_type_hints(function)
    except (AttributeError, NameError, TypeError):
        return  # an annotation has names that exist only for type checkers
    if hints.pop("return", None) not in (None, type(None)):
        fail(f"{name}: expected a step that returns None.", "use ctx.emit(output, record), and annotate -> None.")
    types: list[Any] = [hints.get(parameter) for parameter in inspect.signature(function).parameters]
    types += [None, None]  # for a function with fewer named parameters, such as *args
    records = [source.record for source in sources if isinstance(source, Input)]
    if is_record(types[0]):
        fail(f"{name}: expected the context as first parameter, found {types[0].__name__}.", "declare ctx first.")
    if records and is_record(types[1]) and types[1] not in records:
        expected = " | ".join(record.__name__ for record in records)
        fail(f"{name}: expected {expected} as its event, found {types[1].__name__}.", f"declare (ctx, {expected}).")


def check_signature(fail: Fail, function: Any, parameters: list[str], name: str) -> None:
    """Checks that the function can be called with so many arguments, and is an ordinary function."""
    if inspect.iscoroutinefunction(function):
        fail(f"{name}: a step cannot be async: it does no I/O.", "use def, and send requests through a topic.")
    if inspect.isgeneratorfunction(function):
        fail(f"{name}: a step cannot yield.", "use ctx.emit(output, record).")
    if not callable(function):
        fail(f"{name}{function!r} is not a function.", f"pass a function of ({', '.join(parameters)}).")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as e:
        fail(f"{name}{inspect.signature(function)}: {e}.", f"declare ({', '.join(parameters)}).")
    except ValueError:
        return  # a compiled function has no signature


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def check_rules(fail: Fail, rules: Any) -> None:
    if rules is None:
        return
    problem = problem_of(rules)
    if problem or not is_dataclass(rules):
        fail(
            f"rules: {problem or f'{type(rules).__name__} is not a dataclass'}.",
            "use frozen dataclasses of numbers, strings, booleans, tuples and dicts.",
        )
