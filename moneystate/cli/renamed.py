"""Commands, flags and variables that were renamed. Using an old name is an error that names the new one
(docs/renames.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moneystate.errors import ConfigError

CONNECTION: Final = {"--ca": "--tls-ca", "--cert": "--tls-cert", "--key": "--tls-key"}
COMMANDS: Final = {
    f"state {name}": f"checkpoint {name}"
    for name in ("export", "fingerprint", "compare", "show", "upgrade", "downgrade")
}
# by command, or the group that it is in
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {"--config": "--config after the command"},
    "ask": {**CONNECTION, "--after": "--since"},
    "state": {**CONNECTION, "--after": "--since"},
    "checkpoint": {**CONNECTION, "--most": "--limit"},
    "verify-replay": {"--most": "--limit"},
    "serve": {"--client-ca": "--tls-ca"},
    "heartbeat": {"--format": "--heartbeat-format"},
    "archive": {"--out": "--archive"},
    "bootstrap": {"--checkpoint": "--compare-with"},
    "plan": {"--out": "--save"},
    "reconciliation": {"--intervals": "--limit"},
    "lookup-worker": {
        "--timeout": "--call-timeout",
        "--data": "--index",
        "--ca-file": "--tls-ca",
        "--client-cert": "--tls-cert",
        "--client-key": "--tls-key",
        "--bearer-token-file": "--token-file",
    },
}
VARIABLES: Final = {
    "MONEYSTATE_CA": "MONEYSTATE_TLS_CA",
    "MONEYSTATE_CERT": "MONEYSTATE_TLS_CERT",
    "MONEYSTATE_KEY": "MONEYSTATE_TLS_KEY",
    "MONEYSTATE_CLIENT_CA": "MONEYSTATE_TLS_CA",
    "MONEYSTATE_CA_FILE": "MONEYSTATE_TLS_CA",
    "MONEYSTATE_CLIENT_CERT": "MONEYSTATE_TLS_CERT",
    "MONEYSTATE_CLIENT_KEY": "MONEYSTATE_TLS_KEY",
    "MONEYSTATE_KAFKA_DIR": "MONEYSTATE_KAFKA_DATA_DIR",
    "MONEYSTATE_BEARER_TOKEN_FILE": "MONEYSTATE_TOKEN_FILE",
}
# by command: variables that only other commands still read
VARIABLES_OF: Final = {
    "lookup-worker": {"MONEYSTATE_TIMEOUT": "MONEYSTATE_CALL_TIMEOUT", "MONEYSTATE_DATA": "MONEYSTATE_INDEX"},
    "archive": {"MONEYSTATE_OUT": "MONEYSTATE_ARCHIVE"},
}


def option(command: Sequence[str], name: str) -> str:
    """The new name of a flag; empty: it was not renamed. `command`: the command's words."""
    return OPTIONS.get(command[0] if command else "", {}).get(name, "")


def check_command(words: Sequence[str]) -> None:
    """Raises ConfigError for an old command."""
    old = " ".join(words)
    if old in COMMANDS:
        raise ConfigError(f"{old}: expected the new name of the command.", f"use moneystate {COMMANDS[old]}.")


def check_options(command: Sequence[str], words: Sequence[str]) -> None:
    """Raises ConfigError for an old flag among a command line's words."""
    for word in words:
        new = option(command, word.partition("=")[0])
        if new:
            where = " ".join([*command, word.partition("=")[0]])
            raise ConfigError(f"{where}: expected the new name of the flag.", f"use {new}.")


def check_variables(environ: Mapping[str, str]) -> None:
    """Raises ConfigError for an old variable."""
    for old in sorted(VARIABLES.keys() & environ.keys()):
        raise ConfigError(f"{old}: expected the new name of the variable.", f"set {VARIABLES[old]}, and unset {old}.")


def warnings(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Warnings about variables that other commands read, but this one no longer does."""
    renamed = VARIABLES_OF.get(" ".join(command), {})
    return [
        f"warning: {old}: {' '.join(command)} reads {new}. Do: set that, if the variable was meant for this command."
        for old, new in renamed.items()
        if old in environ and new not in environ
    ]
