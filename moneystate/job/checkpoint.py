"""The checkpoint folder: Spark's logs, and the job's own files in `moneystate/`.

offsets/N, commits/N, metadata, state/   Spark's
local/                                   the state of `moneystate run --local`, in place of `state/`
moneystate/settings.json                 settings that are fixed for the life of the checkpoint
moneystate/start.json                    the offset that batch 0 starts at, replaced epochs, the savepoint
moneystate/rules/<hash>.json             the rules of each run, by their hash in the plans
moneystate/code.json                     digests of the service's functions at the last start, together and of each
moneystate/awaited.json                  of a drained job: how many replies its last batch left open
moneystate/watermarks/<batch>.json       the watermark after a batch, where a replay of the logs may not come to it
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moneystate.engine import plan as plans
from moneystate.engine.inputs import parse_place, place_text
from moneystate.engine.json_object import read_object
from moneystate.errors import CheckpointError, DrainedError, RulesError
from moneystate.job.storage.folder import folder_at
from moneystate.ports.service import rule_changes
from moneystate.records.iso_time import from_ms

FORMAT = 1
OWN = "moneystate"  # the folder of the job's own files


class Checkpoint:
    """A folder that driver and executors reach under the same address."""

    def __init__(self, address: str) -> None:
        self.folder = folder_at(address, "--checkpoint")
        self.root = self.folder.name  # for errors

    def check_writable(self) -> None:
        """Raises CheckpointError; leaves nothing behind."""
        self.folder.check_writable()

    def driver_log(self) -> Path | None:
        """The file for what Spark's JVM prints. It is on this machine; None: it is not kept."""
        return self.folder.driver_log(f"{OWN}/driver.log")

    def is_new(self) -> bool:
        return not self.folder.exists(f"{OWN}/settings.json")

    def settings(self) -> dict[str, Any]:
        return self._read(f"{OWN}/settings.json")

    def start(self) -> dict[str, Any]:
        return self._read(f"{OWN}/start.json")

    def begin(self, settings: Mapping[str, Any], start: Mapping[str, Any]) -> None:
        """Makes a new checkpoint. The settings are written last: a folder without them is not a checkpoint.

        It also chooses the query id, which Spark then uses. So the id is known before the first batch.
        """
        self._write("metadata", {"id": str(uuid.uuid4())})
        self._write(f"{OWN}/start.json", start)
        self._write(f"{OWN}/settings.json", settings)

    def keep_setting(self, name: str, value: Any) -> None:
        self._write(f"{OWN}/settings.json", {**self.settings(), name: value})

    def keep_rules(self, rules: Mapping[str, Any]) -> None:
        self._write(_rules_file(plans.rules_hash(rules)), rules)

    def every_rules(self) -> list[dict[str, Any]]:
        """The rules that its runs have had."""
        names = [name for name in self.folder.names(f"{OWN}/rules") if name.endswith(".json")]
        return [self._read(f"{OWN}/rules/{name}") for name in sorted(names)]

    def rules_by_batch(self) -> list[tuple[int, dict[str, Any]]]:
        """The first planned batch with each of its rules, oldest first, as far as plans of batches are kept."""
        numbers = sorted(int(name) for name in self.folder.names("offsets") if name.isdigit())
        hashes = [(number, str(self.offset(number)["rules"])) for number in numbers]
        firsts = [
            (number, own) for n, (number, own) in enumerate(hashes) if (n == 0 or hashes[n - 1][1] != own)
            and self.folder.exists(_rules_file(own))
        ]  # fmt: skip
        return [(number, self.rules(own)) for number, own in firsts]

    def rules(self, rules_hash: str) -> dict[str, Any]:
        return self._read(_rules_file(rules_hash))

    def latest_rules(self) -> dict[str, Any]:
        """The rules of the last planned batch; empty: a start ended before it had written them."""
        rules_hash = self.offset(self.last_planned())["rules"]
        return self.rules(rules_hash) if self.folder.exists(_rules_file(rules_hash)) else {}

    def epoch(self) -> str | None:
        """Spark's query id; None: before the first start."""
        return str(self._member("metadata", "id", str)) if self.folder.exists("metadata") else None

    def last_planned(self) -> int:
        return self._last_number("offsets")

    def last_committed(self) -> int:
        return self._last_number("commits")

    def offset(self, batch: int) -> dict[str, Any]:
        """The end offset of a planned batch. For batch -1: the start of the checkpoint. Raises CheckpointError."""
        name = f"{OWN}/start.json" if batch < 0 else f"offsets/{batch}"
        try:
            offset: Any = self.start().get("offset") if batch < 0 else self._last_line(name)
            plans.from_offset(offset)
        except plans.NewerProgram:
            pass  # for `check_version`
        except (OSError, ValueError, plans.Unreadable) as e:
            raise CheckpointError(
                f"{self.root}/{name}: expected the plan of a batch, but {e}.", "restore the checkpoint from a copy."
            ) from None
        return dict(offset)

    def plan(self, batch: int, offset: Mapping[str, Any]) -> None:
        """Records the end offset of a batch that runs without Spark, in Spark's form."""
        self.folder.write(f"offsets/{batch}", f"v1\n{{}}\n{json.dumps(offset)}".encode())

    def finish(self, batch: int, keep: int) -> None:
        """Records that a batch has ended that ran without Spark. Keeps the files of that many batches."""
        self.folder.write(f"commits/{batch}", b"v1\n{}")
        for name in ("offsets", "commits"):
            if self.folder.exists(f"{name}/{batch - keep}"):
                self.folder.remove(f"{name}/{batch - keep}")

    def check_place(self, local: bool) -> None:
        """Raises CheckpointError if the checkpoint's state is elsewhere: a local run has its own, Spark has another."""
        if local != bool(self.settings().get("local")):
            mine, other = ("a local run", "a job on Spark") if local else ("a job on Spark", "a local run")
            raise CheckpointError(
                f"{self.root}: expected the checkpoint of {mine}, found that of {other}.",
                f"{'leave out' if local else 'add'} --local, or give another folder.",
            )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raises CheckpointError if this checkpoint was made with other settings."""
        made_with = self.settings()
        for name, value in settings.items():
            if made_with.get(name) != value and name == "job":
                raise CheckpointError(
                    f"{self.root}: expected the service {made_with.get(name)}, which made the checkpoint, found "
                    f"{value}.",
                    "start that service, or give another folder as --checkpoint.",
                )
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
        name = f"{OWN}/code.json"
        return str(self._member(name, "code", str)) if self.folder.exists(name) else ""

    def functions(self) -> dict[str, Any]:
        """The digest of each of them, by name; empty: not known."""
        name = f"{OWN}/code.json"
        functions = self._read(name).get("functions") if self.folder.exists(name) else None
        return functions if isinstance(functions, dict) else {}

    def keep_code(self, code: str, functions: Mapping[str, str]) -> None:
        if code != self.code() or dict(functions) != self.functions():
            self._write(f"{OWN}/code.json", {"code": code, "functions": dict(functions)})

    def keep_watermark(self, batch: int, watermark_ms: int) -> None:
        """Records how far the watermark was after a batch, for a replay: an event of the next batch was behind it, or
        the run ended there."""
        plan = plans.from_offset(self.offset(batch))
        ends = {place_text(tp): planned.end for tp, planned in plan.partitions.items()}
        self._write(f"{OWN}/watermarks/{batch}.json", {"ends": ends, "watermark": watermark_ms})

    def watermarks(self) -> list[plans.Reached]:
        """The recorded watermarks, in the order of their batches."""
        names = [name for name in self.folder.names(f"{OWN}/watermarks") if name.endswith(".json")]
        read = [self._read(f"{OWN}/watermarks/{name}") for name in sorted(names, key=lambda n: int(n.split(".")[0]))]
        return [
            plans.Reached({parse_place(place): end for place, end in r["ends"].items()}, r["watermark"]) for r in read
        ]

    def save_open_requests(self, batch: int, n: int) -> None:
        """Records how many replies are open after a drained batch, before Spark writes its commit log."""
        self._write(f"{OWN}/awaited.json", {"batch": batch, "open": n})

    def open_requests(self) -> int:
        """Returns how many replies a drained job still waits for."""
        last, name = self.last_committed(), f"{OWN}/awaited.json"
        if last < 0 or not self.offset(last)["drain"] or not self.folder.exists(name):
            return 0
        return int(self._member(name, "open", int))

    def check_not_drained(self, reads_replies: bool, drain_until_ms: int | None = None) -> None:
        """Raises DrainedError if nothing is left to do, or if replies are left and this run does not read them.
        `drain_until_ms`: of this run."""
        last = self.last_committed()
        if last < 0 or not self.offset(last)["drain"] or self.last_planned() > last:
            return  # a planned batch of replies must be finished, whatever is open after it
        until_ms = self.offset(last).get("drainUntil")
        if until_ms is not None and drain_until_ms is not None and drain_until_ms > until_ms:
            return
        open_requests = self.open_requests()
        if not open_requests or drain_until_ms not in (None, until_ms):
            ended, later = ("", "") if until_ms is None else (f" at {from_ms(until_ms)}", ", or a later --drain-until")
            raise DrainedError(
                f"{self.root}: expected a checkpoint that can continue, found one that --drain has ended{ended}.",
                f"take a new checkpoint folder{later}.",
            )
        if not reads_replies:
            raise DrainedError(
                f"{self.root}: expected a run that only reads the replies to {open_requests} open lookups, because the "
                "checkpoint was drained.",
                "start it with --until-caught-up --drain, or take a new checkpoint folder.",
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
        """Works like `changed_rules`, but returns only rules that both programs have: only these can have been changed
        by a flag."""
        planned = self.planned_rules()
        changed = {} if planned is None else rule_changes(self.rules(planned), rules)
        return {name: pair for name, pair in changed.items() if None not in pair}

    def replan(self, rules: Mapping[str, Any]) -> None:
        """Lets the unfinished batch read its planned offsets, with other rules."""
        name = f"offsets/{self.last_planned()}"
        plan = {**self.offset(self.last_planned()), "rules": plans.rules_hash(rules)}
        lines = [*self.folder.read(name).decode().splitlines()[:-1], json.dumps(plan)]
        self.folder.write(name, "\n".join(lines).encode())

    def check_rules(self, rules: Mapping[str, Any]) -> None:
        """Raises RulesError if an unfinished batch was planned with other flags. For another program, see
        `moneystate.job.startup.check_plan`."""
        changed = [f"{name} {before} -> {now}" for name, (before, now) in self.changed_flags(rules).items()]
        if not changed:
            return
        raise RulesError(
            f"{self.root}: expected the rules of the planned batch {self.last_planned()}, changed are "
            f"{', '.join(changed)}.",
            "finish it with its own rules first: the same command with --finish-batch.",
        )

    # Files

    def _last_number(self, folder: str) -> int:
        return max((int(name) for name in self.folder.names(folder) if name.isdecimal()), default=-1)

    def _last_line(self, name: str) -> dict[str, Any]:
        lines = self.folder.read(name).decode().splitlines()
        return read_object(lines[-1] if lines else "")

    def _read(self, name: str) -> dict[str, Any]:
        try:
            content = read_object(self.folder.read(name).decode())
        except (OSError, ValueError) as e:
            raise CheckpointError(
                f"{self.root}/{name}: expected a file of the checkpoint, but {e}.",
                "restore the checkpoint from a copy.",
            ) from None
        return content

    def _member(self, name: str, member: str, kind: type) -> Any:
        value = self._read(name).get(member)
        if type(value) is not kind:
            raise CheckpointError(
                f"{self.root}/{name}: expected {kind.__name__} as {member}, found {type(value).__name__}.",
                "restore the checkpoint from a copy.",
            )
        return value

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        self.folder.write(name, json.dumps(content, sort_keys=True, indent=1).encode())


def _rules_file(rules_hash: str) -> str:
    return f"{OWN}/rules/{rules_hash}.json"
