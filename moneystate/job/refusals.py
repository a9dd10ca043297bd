"""What a start is refused for, by the checkpoint that it continues or the savepoint that it begins with. A start raises
the first error (`startup.check_existing`, `initial.check_fits`), `plan` shows all of them: nothing else decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moneystate.errors import CheckpointError, DrainedError, MoneystateError, RulesError, SavepointError
from moneystate.job.checkpoint import FORMAT, Checkpoint
from moneystate.ports.service import STATE_VERSIONS, TIMED, TOPICS, rule_changes
from moneystate.savepoint.manifest import Manifest

INITIAL_STATE: Final = "--initial-state"


class Refusal(NamedTuple):
    """A difference that no start accepts."""

    part: str  # as of `moneystate.job.deployment.Change`
    name: str
    before: Any
    after: Any
    effect: str  # in words; empty: the error says it all
    error: MoneystateError


def raise_first(refusals: Iterable[Refusal]) -> None:
    for refusal in refusals:
        raise refusal.error


def of_checkpoint(
    checkpoint: Checkpoint, settings: Mapping[str, Any], rules: Mapping[str, Any], finish_batch: bool = False,
    reads_replies: bool = False, drain_until_ms: int | None = None,
) -> Iterator[Refusal]:  # fmt: skip
    """Ends after a format or version that this program does not know."""
    root, made_with = str(checkpoint.root), checkpoint.settings()
    job = str(settings["job"])
    if made_with.get("format") != FORMAT:
        error = CheckpointError(
            f"{root}: expected checkpoint format {FORMAT}, found {made_with.get('format')}.",
            "run it with the version that made it.",
        )
        yield _of_start(job, error)
        return
    if elsewhere := _error_of(checkpoint.check_place, bool(settings.get("local"))):
        yield _of_start(job, elsewhere)
        return
    for name, value in settings.items():
        if different := _error_of(checkpoint.check_settings, {name: value}):
            yield Refusal("setting", name, made_with.get(name), value, "fixed for the life of a checkpoint", different)
    if newer := _error_of(checkpoint.check_version):
        yield _of_start(job, newer)
        return
    if drained := _error_of(checkpoint.check_not_drained, reads_replies, drain_until_ms):
        yield _of_start(job, drained)
    before = checkpoint.latest_rules()
    yield from _of_state_versions(before, rules, root, "start the newer program, or an older checkpoint or savepoint.")
    yield from _of_timed(before, rules, root)
    if finish_batch and checkpoint.planned_rules() is None:
        error = CheckpointError(
            f"{root}: expected a planned batch to finish, all are finished.", "start without --finish-batch."
        )
        yield _of_start(job, error)
    if planned := _error_of(checkpoint.check_rules, rules):
        effect = "planned with other rules: finish it first, with --finish-batch and these rules"
        yield Refusal("batch", str(checkpoint.last_planned()), "planned", None, effect, planned)


def of_savepoint(
    savepoint: Manifest, job: str, key_groups: int, rules: Mapping[str, Any], streams: Sequence[str]
) -> Iterator[Refusal]:
    """A savepoint is meant for other versions of the program, so only its own rules must be the same."""
    if savepoint.job != job:
        error = SavepointError(
            f"{INITIAL_STATE}: expected a savepoint of {job}, found one of {savepoint.job}.",
            f"give a savepoint of {job}.",
        )
        yield Refusal("setting", "job", savepoint.job, job, "as in the savepoint", error)
    if savepoint.key_groups != key_groups:
        error = SavepointError(
            f"{INITIAL_STATE}: expected --key-groups {savepoint.key_groups} as in the savepoint, found {key_groups}.",
            f"give --key-groups {savepoint.key_groups}, or make another with moneystate checkpoint export --key-groups "
            f"{key_groups}.",
        )
        yield Refusal("setting", "key_groups", savepoint.key_groups, key_groups, "as in the savepoint", error)
    before = savepoint.rules
    yield from _of_timed(before, rules, INITIAL_STATE)
    yield from _of_rules(before, rules)
    yield from _of_state_versions(before, rules, INITIAL_STATE, "start the newer program, or from an older savepoint.")
    if savepoint.output and savepoint.streams != streams:
        error = SavepointError(
            f"{INITIAL_STATE}: expected output for {', '.join(streams)}, found {', '.join(savepoint.streams)}.",
            "make the savepoint with this version of the program.",
        )
        yield Refusal("output", job, savepoint.streams, list(streams), "as in the savepoint", error)
    if savepoint.plan is not None and savepoint.plan["drain"]:
        drained = DrainedError(
            f"{INITIAL_STATE}: expected a savepoint that can continue, found a drained one.",
            "bootstrap from the logs instead.",
        )
        yield _of_start(job, drained)


def _of_start(job: str, error: MoneystateError) -> Refusal:
    return Refusal("start", job, None, None, "", error)


def _error_of(check: Callable[..., None], *given: Any) -> MoneystateError | None:
    try:
        check(*given)
    except MoneystateError as e:
        return e
    return None


def _of_rules(before: Mapping[str, Any], rules: Mapping[str, Any]) -> Iterator[Refusal]:
    changed = {n: pair for n, pair in rule_changes(before, rules).items() if n in before and n != TIMED}
    different = "; ".join([f"{name} {was}, found {now}" for name, (was, now) in changed.items()])
    error = SavepointError(
        f"{INITIAL_STATE}: expected the rules of the savepoint: {different}.",
        "start with its rules; a later start may change them.",
    )
    effect = "as in the savepoint: start with its rules, a later start may change them"
    for name, (was, now) in changed.items():
        yield Refusal("rule", name, was, now, effect, error)


def _of_timed(before: Mapping[str, Any], rules: Mapping[str, Any], where: str) -> Iterator[Refusal]:
    """Inputs that have become timed streams, or have ceased to be. Their buffered events have no place in the other
    order."""
    changed = {*before.get(TIMED, [])} ^ {*rules.get(TIMED, [])}
    for topic in sorted(changed & {*before.get(TOPICS, {})}):
        kinds, is_timed = ("ordinary", "timed"), topic in rules.get(TIMED, [])
        told = ("an ordinary input", "a timed stream")
        error = RulesError(
            f"{where}: expected {told[not is_timed]} in {topic}, as when it was made, found {told[is_timed]}.",
            "declare it as before, or start a new checkpoint without state.",
        )
        effect = "its buffered events have no place in the other order"
        yield Refusal("input", topic, kinds[not is_timed], kinds[is_timed], effect, error)


def _of_state_versions(before: Mapping[str, Any], rules: Mapping[str, Any], where: str, do: str) -> Iterator[Refusal]:
    """Refuses, for a service, a program that lacks a version of its records: it cannot read the state of a newer
    program."""
    known, written = rules.get(STATE_VERSIONS), before.get(STATE_VERSIONS)
    if known is not None and written is not None and written > known:
        kind = CheckpointError if where != INITIAL_STATE else SavepointError
        error = kind(
            f"{where}: expected state of the {known} released versions of records that this program has, found that of "
            f"a program with {written}.",
            do,
        )
        yield Refusal("state", "versions", written, known, "this program cannot read the state", error)
