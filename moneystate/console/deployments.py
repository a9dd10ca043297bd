"""The rules of a job and what its next start would change, from its checkpoint."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moneystate.console.servers import Asked
from moneystate.errors import ConfigError, MoneystateError
from moneystate.job.checkpoint import Checkpoint
from moneystate.ports.service import STATE_SCHEMAS, rule_changes

PLAN_S: Final = 60.0
EXPORT_S: Final = 1_800.0
REFUSED: Final = 1  # exit code of `moneystate plan`


@dataclass(frozen=True)
class ShownCheckpoint:
    """`plan`: the command whose answer says what the next start would change. `export`: the one that makes a savepoint
    of it, in the folder that follows."""

    service: str
    address: str
    plan: Sequence[str]
    export: Sequence[str]

    @property
    def command(self) -> list[str]:
        """`plan` as a person types it."""
        return ["moneystate", *self.plan[list(self.plan).index("plan") :]]


@dataclass(frozen=True)
class RulesSince:
    """`batch`: the first one with these rules, or the first one whose plan is kept; `changes`: the values before and
    now, by rule; empty for the first."""

    batch: int
    changes: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Rules:
    """`in_force`: of the last planned batch; `history`: the newest first."""

    in_force: Mapping[str, Any]
    history: Sequence[RulesSince]


def service_of(address: str, flag: str) -> str:
    """The service whose checkpoint it is. Raises ConfigError."""
    checkpoint = Checkpoint(address)
    try:
        if not checkpoint.is_new():
            return str(checkpoint.settings()["job"])
    except (MoneystateError, KeyError) as e:
        raise ConfigError(f"{flag} {address}: expected a checkpoint, but {e}", "give the folder of a job.") from None
    raise ConfigError(f"{flag} {address}: expected a checkpoint, found none.", "give the folder of a job.")


def is_local(address: str) -> bool:
    """Whether it belongs to a local run."""
    return bool(Checkpoint(address).settings().get("local"))


def rules_of(address: str) -> Rules:
    """Blocks. Raises CheckpointError."""
    by_batch = Checkpoint(address).rules_by_batch()
    history = []
    for n, (batch, rules) in enumerate(by_batch):
        before = by_batch[n - 1][1] if n else rules
        history.append(RulesSince(batch, rule_changes(before, rules)))
    in_force = by_batch[-1][1] if by_batch else {}
    return Rules({name: its for name, its in sorted(in_force.items()) if name != STATE_SCHEMAS}, history[::-1])


def planned(command: Sequence[str], service: str) -> list[dict[str, Any]]:
    """Returns what the next start would change: part, name, before, after, effect and whether it is refused. Blocks.
    Raises Asked with the command's error."""
    answer = _ran(command, "moneystate plan", PLAN_S, (0, REFUSED))
    changes: list[dict[str, Any]] = json.loads(answer.splitlines()[-1])[service]
    return changes


def export(command: Sequence[str], folder: str) -> None:
    """Makes a savepoint of a stopped job's checkpoint. Blocks. Raises Asked with the command's error."""
    _ran([*command, folder], "moneystate checkpoint export", EXPORT_S, (0,))


def _ran(command: Sequence[str], name: str, within_s: float, codes: Sequence[int]) -> str:
    """Returns what a command writes to its stdout. Raises Asked unless it ends with one of these codes."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=within_s, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise Asked("UNAVAILABLE", f"{name}: expected an answer within {within_s:.0f} s, found none.") from None
    if done.returncode not in codes:
        lines = done.stderr.strip().splitlines()
        raise Asked("UNAVAILABLE", lines[-1] if lines else f"{name} ended with code {done.returncode}.")
    return done.stdout
