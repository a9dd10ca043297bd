"""Formats usage errors as one line: where, what was expected, what was found, what to do."""

from __future__ import annotations

from typing import Any

from typer.exceptions import TyperException

from moneystate.cli.settings_file import words_of

NUMBERS = {int: "a whole number", float: "a number"}


def told(error: TyperException) -> str:
    """The error as one line, or the help if the command is missing."""
    message = error.format_message().strip()
    if message.startswith("Usage:"):
        return message
    given: Any = error
    context, parameter = getattr(given, "ctx", None), getattr(given, "param", None)
    command = " ".join(["moneystate", *(words_of(context) if context is not None else [])])
    see = f"Do: see {command} --help."
    if parameter is None:
        return f"error: {' '.join(message.split())} {see}"
    name = parameter.metavar if parameter.param_type_name == "argument" else parameter.opts[0]
    cause = given.__cause__
    if cause is None:
        return f"error: {command}: expected {_written(parameter, name)}, found nothing. Do: {_give(parameter, name)}"
    wrong = cause.errors()[0].get("input")
    return f"error: {name} {wrong}: expected {_expected(parameter)}, found {wrong!r}. {see}"


def _written(parameter: Any, name: str) -> str:
    return name if parameter.param_type_name == "argument" else f"{name} {parameter.metavar}"


def _give(parameter: Any, name: str) -> str:
    if parameter.param_type_name == "argument":
        return "name it after the command."
    key = name.lstrip("-")
    return f"give the flag, set {parameter.envvar}, or put {key} into the file of --config."


def _expected(parameter: Any) -> str:
    kind = parameter.type_descriptor
    if kind.is_choice:
        return f"one of {', '.join(map(str, kind.choices))}"
    least, most = kind.parameter_info.min, kind.parameter_info.max
    limits = f" from {least} to {most}" if most is not None else f", at least {least}" if least is not None else ""
    return f"{NUMBERS.get(kind.annotation, parameter.metavar or 'true or false')}{limits}"
