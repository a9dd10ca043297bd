"""Reports which schema versions are in a checkpoint's state, and whether this program can read them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from moneystate.engine import plan as plans
from moneystate.job.checkpoint import Checkpoint
from moneystate.job.storage import jvm_settings
from moneystate.schemas.check import Finding, Functions, check_state_entries
from moneystate.schemas.tree import Tree
from moneystate.spark.session import open_session
from state_tools.entries import count_schemas


def check_checkpoint(tree: Tree, checkpoint: Checkpoint, functions: Functions) -> list[Finding]:
    """One finding for each version in the newest state, or one for a plan of a newer program."""
    findings = []
    try:
        plans.check_version(checkpoint.offset(checkpoint.last_planned()))
    except plans.NewerProgram as e:
        fix = "run the program that wrote it, or a newer one."
        findings.append(Finding("state", "", checkpoint.root, "newer program", "", str(e.args[0]), fix, False))
    if checkpoint.last_committed() >= 0:
        counts = {schema: n for (_, schema), n in count_state(checkpoint).items()}
        findings += check_state_entries(tree, counts, functions)
    return findings


def count_state(checkpoint: Checkpoint) -> dict[tuple[str, str], int]:
    """Entries of the newest state by kind (the first letter of their keys) and fingerprint (hex)."""
    with tempfile.TemporaryDirectory(prefix="moneystate-") as scratch:
        session = open_session("moneystate-schemas", None, 2, jvm_settings.settings(), Path(scratch) / "driver.log")
        try:
            return count_schemas(session, checkpoint.folder.address, checkpoint.settings()["key_groups"])
        finally:
            session.stop()
