"""The checkpoint folder: Spark's logs, and the job's own files in `moneystate/`.

offsets/N, commits/N, metadata, state/   Spark's
moneystate/settings.json                 settings that are fixed for the life of the checkpoint
moneystate/start.json                    the offset that batch 0 starts at, replaced epochs, the savepoint
moneystate/rules/<hash>.json             the rules of each run, by their hash in the plans
moneystate/code.json                     digest of the service's functions at the last start
moneystate/awaited.json                  of a drained job: how many replies its last batch left open
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moneystate.engine import plan as plans
from moneystate.engine.json_object import read_object
from moneystate.errors import CheckpointError, DrainedError, RulesError
from moneystate.ports.service import rule_changes
from moneystate.spark.local_path import existing_part, local_folder

FORMAT = 1


class Checkpoint:
    """A folder that driver and executors see under the same path."""

    def __init__(self, path: str) -> None:
        self.root = local_folder(path, "--checkpoint")
        self.own = self.root / "moneystate"

    def check_writable(self) -> None:
        """Raises CheckpointError; leaves nothing behind."""
        existing = existing_part(self.root)
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise CheckpointError(
                f"{self.root}: expected a folder that can be written to.",
                "choose another one, or change its permissions.",
            )

    def is_new(self) -> bool:
        return not (self.own / "settings.json").exists()

    def settings(self) -> dict[str, Any]:
        return _read(self.own / "settings.json")

    def start(self) -> dict[str, Any]:
        return _read(self.own / "start.json")

    def begin(self, settings: Mapping[str, Any], start: Mapping[str, Any]) -> None:
        """Makes a new checkpoint. The settings are written last: a folder without them is not a checkpoint.

        It also chooses the query id, which Spark then uses. So the id is known before the first batch.
        """
        self.own.mkdir(parents=True, exist_ok=True)
        _write(self.root / "metadata", {"id": str(uuid.uuid4())})
        _write(self.own / "start.json", start)
        _write(self.own / "settings.json", settings)

    def keep_setting(self, name: str, value: Any) -> None:
        _write(self.own / "settings.json", {**self.settings(), name: value})

    def keep_rules(self, rules: Mapping[str, Any]) -> None:
        (self.own / "rules").mkdir(parents=True, exist_ok=True)
        _write(self.own / "rules" / f"{plans.rules_hash(rules)}.json", rules)

    def rules(self, rules_hash: str) -> dict[str, Any]:
        return _read(self.own / "rules" / f"{rules_hash}.json")

    def latest_rules(self) -> dict[str, Any]:
        """The rules of the last planned batch; empty: a start ended before it had written them."""
        rules_hash = self.offset(self.last_planned())["rules"]
        return self.rules(rules_hash) if (self.own / "rules" / f"{rules_hash}.json").exists() else {}

    def epoch(self) -> str | None:
        """Spark's query id; None: before the first start."""
        metadata = self.root / "metadata"
        return str(_member(metadata, "id", str)) if metadata.exists() else None

    def last_planned(self) -> int:
        return _last_number(self.root / "offsets")

    def last_committed(self) -> int:
        return _last_number(self.root / "commits")

    def offset(self, batch: int) -> dict[str, Any]:
        """The end offset of a planned batch. For batch -1: the start of the checkpoint. Raises CheckpointError."""
        path = self.own / "start.json" if batch < 0 else self.root / "offsets" / str(batch)
        try:
            offset: Any = self.start().get("offset") if batch < 0 else _last_line(path)
            plans.from_offset(offset)
        except plans.NewerProgram:
            pass  # for `check_version`
        except (OSError, ValueError, plans.Unreadable) as e:
            raise CheckpointError(
                f"{path}: expected the plan of a batch, but {e}.", "restore the checkpoint from a copy."
            ) from None
        return dict(offset)

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raises CheckpointError if this checkpoint was made with other settings."""
        made_with = self.settings()
        for name, value in settings.items():
            if made_with.get(name) != value:
                flag = name.replace("_", "-")
                raise CheckpointError(
                    f"{self.root}: expected --{flag} {made_with.get(name)} as when the checkpoint was made, found "
                    f"{value}.",
                    f"give --{flag} {made_with.get(name)}, or take another checkpoint folder.",
                )

    def check_version(self) -> None:
        """Raises CheckpointError if a newer program planned the last batch."""
        try:
            plans.check_version(self.offset(self.last_planned()))
        except plans.NewerProgram as e:
            raise CheckpointError(
                f"{self.root}: {e.args[0]}.", "run it with the version that wrote it, or newer."
            ) from None

    def code(self) -> str:
        """The digest of the service's functions at the last start; empty: not known."""
        file = self.own / "code.json"
        return str(_member(file, "code", str)) if file.exists() else ""

    def keep_code(self, code: str) -> None:
        if code != self.code():
            _write(self.own / "code.json", {"code": code})

    def save_open_requests(self, batch: int, n: int) -> None:
        """Records how many replies are open after a drained batch, before Spark writes its commit log."""
        _write(self.own / "awaited.json", {"batch": batch, "open": n})

    def open_requests(self) -> int:
        """How many replies a drained job still waits for."""
        last, file = self.last_committed(), self.own / "awaited.json"
        if last < 0 or not self.offset(last)["drain"] or not file.exists():
            return 0
        return int(_member(file, "open", int))

    def check_not_drained(self, reads_replies: bool) -> None:
        """Raises DrainedError if nothing is left to do, or if replies are left and this run does not read them."""
        last = self.last_committed()
        if last < 0 or not self.offset(last)["drain"] or self.last_planned() > last:
            return  # a planned batch of replies must be finished, whatever is open after it
        open_requests = self.open_requests()
        if not open_requests:
            raise DrainedError(
                f"{self.root}: expected a checkpoint that can continue, found one that --drain has ended.",
                "take a new checkpoint folder.",
            )
        if not reads_replies:
            raise DrainedError(
                f"{self.root}: expected a run that only reads the replies to {open_requests} open lookups, because the "
                "checkpoint was drained.",
                "start it with --until-caught-up --drain --session-lookup topic, or take a new checkpoint folder.",
            )

    def planned_rules(self) -> str | None:
        """The hash of the rules of the unfinished batch; None: there is none."""
        planned = self.last_planned()
        if planned <= self.last_committed():
            return None
        return str(self.offset(planned)["rules"])

    def changed_rules(self, rules: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """The rules in which the plan of an unfinished batch differs from `rules`: the planned value and the new one.
        None: that program does not have the rule."""
        planned = self.planned_rules()
        if planned is None or planned == plans.rules_hash(rules):
            return {}
        before = self.rules(planned)
        pairs = {name: (before.get(name), rules.get(name)) for name in {**before, **rules}}
        return {name: (then, now) for name, (then, now) in pairs.items() if then != now}

    def changed_flags(self, rules: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        """As `changed_rules`, but only rules that both programs have: only these can have been changed by a flag."""
        planned = self.planned_rules()
        changed = {} if planned is None else rule_changes(self.rules(planned), rules)
        return {name: pair for name, pair in changed.items() if None not in pair}

    def replan(self, rules: Mapping[str, Any]) -> None:
        """Lets the unfinished batch read its planned offsets, with other rules."""
        file = self.root / "offsets" / str(self.last_planned())
        plan = {**self.offset(self.last_planned()), "rules": plans.rules_hash(rules)}
        lines = [*file.read_text().splitlines()[:-1], json.dumps(plan)]
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Spark's checksum, which Spark does not require
        _replace(file, "\n".join(lines))

    def check_rules(self, rules: Mapping[str, Any]) -> None:
        """Raises RulesError if an unfinished batch was planned with other flags. For another program, see
        `moneystate.spark.startup.check_plan`."""
        changed = [f"{name} {before} -> {now}" for name, (before, now) in self.changed_flags(rules).items()]
        if not changed:
            return
        raise RulesError(
            f"{self.root}: expected the rules of the planned batch {self.last_planned()}, changed are "
            f"{', '.join(changed)}.",
            "finish it with its own rules first: the same command with --finish-batch.",
        )


def _last_number(folder: Path) -> int:
    if not folder.is_dir():
        return -1
    return max((int(f.name) for f in folder.iterdir() if f.name.isdecimal()), default=-1)


def _last_line(path: Path) -> dict[str, Any]:
    lines = path.read_text().splitlines()
    return read_object(lines[-1] if lines else "")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_object(path.read_text())
    except (OSError, ValueError) as e:
        raise CheckpointError(
            f"{path}: expected a file of the checkpoint, but {e}.", "restore the checkpoint from a copy."
        ) from None
    return content


def _member(path: Path, name: str, kind: type) -> Any:
    value = _read(path).get(name)
    if type(value) is not kind:
        raise CheckpointError(
            f"{path}: expected {kind.__name__} as {name}, found {type(value).__name__}.",
            "restore the checkpoint from a copy.",
        )
    return value


def _write(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a file atomically, even if the machine fails."""
    _replace(path, json.dumps(content, sort_keys=True, indent=1))


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.stem}.tmp")
    with temporary.open("w") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(path)
