"""How an option is declared, once: its name, variable, panel of the help, and what it expects.

`--NAME` is the variable MONEYSTATE_NAME and the key NAME of the command's table in a configuration file. An option of
one name has one meaning, one type and one help text in all commands. Options of the development broker and of the fake
service have common names, so their variables have a prefix. So has --key of `skew`, whose variable once was another's.
Options of `table` that have such a prefix mean something of their own.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import typer

from moneystate.cli.durations import parse_ms
from moneystate.errors import ConfigError
from moneystate.serving import addresses

T = TypeVar("T")
Check = Callable[[str, str], object]  # checks a text that is not empty; gets the option's name for the error

PREFIX: Final = "MONEYSTATE_"
OPTION: Final = "option"  # of a field of `Flags`, in its metadata

# Placeholders of the values that options expect
DURATION: Final = "DURATION"
PATH: Final = "PATH"
PATH_OR_URI: Final = "PATH|URI"  # such as s3a://BUCKET/FOLDER
ADDRESS: Final = "HOST:PORT"
ADDRESSES: Final = "HOST:PORT,..."
NUMBER: Final = "N"
TIME: Final = "TIME"
VERSION: Final = "EPOCH/BATCH"
PAIR: Final = "NAME=VALUE"


def check_addresses(text: str, flag: str) -> None:
    """Checks addresses of brokers, HOST:PORT,..., perhaps PROTOCOL://HOST:PORT. Raises ConfigError."""
    for address in text.split(","):
        addresses.split(re.sub(r"^\w+://", "", address.strip()), flag)


CHECKS: Final[dict[str, Check]] = {DURATION: parse_ms, ADDRESS: addresses.split, ADDRESSES: check_addresses}


class Panel(StrEnum):
    """The groups of options in a command's help, in their order."""

    question = "Question"
    service = "Service and configuration"
    kafka = "Kafka"
    state = "Checkpoint and state"
    server = "Server"
    http = "External service"
    topics = "Topics"
    input = "Input"
    run = "This run"
    rules = "Rules"
    limits = "Limits"
    security = "TLS and tokens"
    spark = "Spark"
    metrics = "Metrics"
    telemetry = "Lineage and traces"
    output = "Output"


def option(
    name: str,
    help: str,
    panel: Panel,
    metavar: str = "",
    *,
    scope: str = "",
    least: int | None = None,
    most: int | None = None,
    shown: bool | str | None = None,
) -> typer.models.OptionInfo:
    """An option. Without `metavar` it is a switch, --NAME or --no-NAME, which is off by default. `scope`: a prefix of
    the variable's name. `least` and `most`: limits of a number. `shown`: the default as the help shows it."""
    info: typer.models.OptionInfo = typer.Option(
        f"--{name}" if metavar else f"--{name}/--no-{name}",
        help=help,
        rich_help_panel=panel.value,
        metavar=metavar or None,
        envvar=variable(name, scope),
        min=least,
        max=most,
        show_default=bool(metavar) if shown is None else shown,
        callback=_checking(CHECKS[metavar]) if metavar in CHECKS else None,
    )
    return info


def repeated(name: str, help: str, panel: Panel, metavar: str) -> typer.models.OptionInfo:
    """An option that may be given several times. Its variable has the values separated by semicolons or line ends.
    Blanks are parts of values."""
    info: typer.models.OptionInfo = typer.Option(
        f"--{name}",
        help=f"{help} May be repeated.",
        rich_help_panel=panel.value,
        metavar=metavar,
        envvar=variable(name),
        callback=_split,
    )
    return info


def choice(name: str, help: str, panel: Panel, values: type[StrEnum]) -> typer.models.OptionInfo:
    return option(name, help, panel, "|".join(values))


def variable(name: str, scope: str = "") -> str:
    return PREFIX + (f"{scope}_{name}" if scope else name).upper().replace("-", "_")


def _checking(check: Check) -> Callable[..., Any]:
    def checked(parameter: typer.CallbackParam, value: str | None) -> str | None:
        if value:
            check(value, parameter.opts[0])
        return value

    return checked


def _split(context: typer.Context, parameter: typer.CallbackParam, values: list[str] | None) -> list[str] | None:
    source = context.get_parameter_source(str(parameter.name))
    if source is None or source.name != "ENVIRONMENT":
        return values
    text = os.environ[str(parameter.envvar)]
    return [part.strip() for part in re.split(r"[;\n]", text) if part.strip()]


def check_given(**values: str) -> None:
    """Raises ConfigError for an option that was given an empty value."""
    for name, value in values.items():
        if not value.strip():
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{flag}: expected a value, found an empty one.", f"give {flag} a value.")


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Parses NAME=VALUE texts. Raises ConfigError, which does not repeat the text, because it may be a secret."""
    values = {}
    for number, text in enumerate(texts, 1):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(
                f"{flag}: expected NAME=VALUE, found something else as number {number} of {len(texts)}.",
                f"write {flag} NAME=VALUE.",
            )
        values[name.strip()] = value.strip()
    return values


class Flags:
    """The base of dataclasses whose fields are options, or other such dataclasses. A command with a parameter of such a
    type has its options, each declared once."""


def flag(default: T, help: str, panel: Panel, metavar: str = "", name: str = "", **more: Any) -> T:
    """A field of `Flags` that is an option. `name`: its name, if it is not the field's. `more`: as `option` takes it.
    The values of a choice are those of its default's type."""
    values = "|".join(type(default)) if isinstance(default, StrEnum) else ""
    return _field(default, lambda field: option(name or field, help, panel, metavar or values, **more))


def repeated_flag(help: str, panel: Panel, metavar: str) -> list[str] | None:
    """A field of `Flags` that is a repeated option."""
    return _field(None, lambda field: repeated(field, help, panel, metavar))


def _field(default: T, declared: Callable[[str], typer.models.OptionInfo]) -> T:
    made: T = field(default=default, metadata={OPTION: declared})
    return made


def parameters_of(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters by name, those of `flag` with their options."""
    parameters = dict(inspect.signature(make, eval_str=True).parameters)
    for f in fields(make) if is_dataclass(make) else ():
        if OPTION in f.metadata:
            declared = f.metadata[OPTION](f.name.rstrip("_").replace("_", "-"))
            plain = parameters[f.name]
            parameters[f.name] = plain.replace(annotation=Annotated[plain.annotation, declared])
    return parameters


def flagged(command: Callable[..., T], parameter: str, make: Callable[..., Any]) -> Callable[..., T]:
    """Replaces a parameter of a command with the options of `make`, whose result it gets."""
    make = expanded(make)
    flags = parameters_of(make)
    shown: list[inspect.Parameter] = []
    for name, p in parameters_of(command).items():
        shown += flags.values() if name == parameter else [p]

    @functools.wraps(command, updated=())  # which may be a class
    def run(**given: Any) -> T:
        made = make(**{name: given.pop(name) for name in flags})
        return command(**{parameter: made}, **given)

    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shown]
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def expanded(command: Callable[..., T]) -> Callable[..., T]:
    """The command with the options of its parameters that are `Flags`."""
    for name, p in inspect.signature(command, eval_str=True).parameters.items():
        if isinstance(p.annotation, type) and issubclass(p.annotation, Flags):
            command = flagged(command, name, p.annotation)
    return command


def filled(settings: Callable[..., T], *groups: Flags, **more: Any) -> T:
    """Makes a dataclass of settings. Its fields get the flags of the same names, also those within flags. `more` comes
    before them."""
    names = inspect.signature(settings).parameters
    given = {name: value for flags in groups for name, value in _values(flags).items() if name in names}
    return settings(**{**given, **more})


def _values(flags: Flags) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in vars(flags).items():
        values |= _values(value) if isinstance(value, Flags) else {name: value}
    return values
