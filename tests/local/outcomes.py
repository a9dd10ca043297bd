"""What a job of the enrichment puts out after kills, whatever log it reads."""

from __future__ import annotations

from tests.job.harness import Setup, counts, small_workload
from tests.job.test_workload import BOUNDED, RULES


def check_kills(setup: Setup, steps: tuple[str, ...]) -> None:
    """Kills a local run after each of `steps`, and starts it again."""
    log = small_workload("--events", "1200", "--flush-marker")
    setup.create_inputs()
    setup.send(log)
    few = ("--local", *BOUNDED, "--max-records-per-batch", str(len(log) // 4 + 1))
    for step in steps:
        setup.kill_at(step, *few)
    done = setup.run(*few)
    want = setup.check_output(RULES, drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)
