"""The commands on a log in memory: history up to a cut by bootstrap, then a job that starts from its savepoint."""

from __future__ import annotations

import json
from pathlib import Path

from moneystate.savepoint.format import Savepoint
from tests.bootstrap.test_kafka import offsets_file
from tests.job.harness import small_workload
from tests.local.in_memory import InMemory, command
from tests.log_lines import kinds
from tests.reference import model


def flags(setup: InMemory, out: Path) -> list[str]:
    return [
        *("bootstrap", "--local", "--service", "enrichment"),
        *("--from", "kafka", "--bootstrap-servers", setup.bootstrap_servers, "--topic-prefix", setup.prefix),
        *("--out", str(out), "--partitions", "2", "--key-groups", "8", "--json", "--quiet"),
    ]


def test_output_before_and_after_the_cut_is_that_of_one_job(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs()
    setup.send(small_workload("--events", "600"))
    out = setup.folder / "savepoint"
    cut = str(offsets_file(setup, 0.6))
    made = command((*flags(setup, out), "--as-of", cut, "--with-output", "--max-records-per-chunk", "150"))
    assert made.code == 0, made.err
    assert made.totals["fingerprint"] == Savepoint(out).manifest.fingerprint
    assert json.loads(Path(cut).read_text())["wallet-events"]["0"] > 0
    setup.run("--initial-state", str(out), "--until-caught-up", "--drain", "--quiet")
    setup.check_output(model.Rules(lookup=False), drain=True)


def test_what_is_wrong_is_one_line_and_nothing_is_made(in_memory: InMemory) -> None:
    setup = in_memory
    setup.create_inputs()
    before = set(setup.folder.iterdir())
    out = setup.folder / "savepoint"
    archive = ["bootstrap", "--service", "enrichment", "--from", str(setup.folder / "none"), "--out", str(out)]
    for arguments in (archive, [*flags(setup, out), "--as-of", "noon"]):
        done = command(arguments)
        assert done.code in (2, 3)
        assert kinds(done.err) == ["error:"]
    assert {path for path in setup.folder.iterdir() if not path.name.startswith("run-")} == before
