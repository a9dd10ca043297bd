"""Many schedules, one after the other, by some workers side by side; and the table of their results."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.schedule import OF_A_HUNDRED, TARGETS, Schedule, schedule_of
from tests.chaos.trial import Result, Trial
from tests.chaos.world import World
from tests.job.warm import ROOT

NEW_WORLD_AFTER = 60  # schedules: deleted topics leave something behind in the broker


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos schedules",
        description="Seeded faults on real processes and a real broker. Ends with code 1 if something did not hold.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=1, help="schedules side by side, each with a broker of its own")
    parser.add_argument(
        "--out", type=Path, help="append the results here, as JSON lines; seeds that are there are not run again"
    )
    parser.add_argument("--show", type=Path, help="only print the table of such a file")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/reliability.md has it")
    parser.add_argument("--plan", action="store_true", help="only print the schedules")
    a = parser.parse_args(arguments)
    _end_well()
    if a.show:
        print(table(read_results(a.show), a.markdown))
        return
    seeds = [a.seed] if a.seed is not None else [*range(a.first, a.first + a.count)]
    if a.plan:
        for seed in seeds:
            print(f"{seed} {schedule_of(seed)}")
        return
    known = {r.seed for r in read_results(a.out)} if a.out and a.out.exists() and a.seed is None else set()
    results = []
    for result in run([seed for seed in seeds if seed not in known], a.workers):
        results.append(result)
        print(result.line(), flush=True)
        if a.out:
            with a.out.open("a") as out:
                out.write(result.as_json() + "\n")
    print(table(results, a.markdown))
    if not all(result.held() for result in results):
        raise SystemExit(1)


def run(seeds: Sequence[int], workers: int) -> Iterator[Result]:
    if workers == 1:
        yield from run_all(seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers, _end_well, maxtasksperchild=1) as pool:
        shares = [seeds[n : n + NEW_WORLD_AFTER] for n in range(0, len(seeds), NEW_WORLD_AFTER)]
        queue = multiprocessing.get_context("spawn").Manager().Queue()
        left = pool.starmap_async(_run_share, [(share, queue) for share in shares])
        while not (left.ready() and queue.empty()):
            try:
                yield queue.get(timeout=1)
            except Exception:
                continue
        left.get()


def _run_share(seeds: Sequence[int], queue: multiprocessing.Queue[Result]) -> None:
    for result in run_all(seeds):
        queue.put(result)


def _end_well() -> None:
    """SIGTERM ends the brokers and machines, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def run_all(seeds: Sequence[int]) -> Iterator[Result]:
    commit = _commit()
    for n in range(0, len(seeds), NEW_WORLD_AFTER):
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            world = World(Path(folder))
            try:
                for seed in seeds[n : n + NEW_WORLD_AFTER]:
                    yield run_schedule(world, schedule_of(seed), commit)
            finally:
                world.close()


def run_schedule(world: World, schedule: Schedule, commit: str = "") -> Result:
    trial = Trial(world, schedule)
    try:
        result = trial.run()
    finally:
        trial.close()
    result.commit = commit
    return result


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def read_results(file: Path) -> list[Result]:
    """The last result of each seed."""
    results = [Result(**json.loads(line)) for line in file.read_text().splitlines()]
    return [*{result.seed: result for result in results}.values()]


def table(results: Sequence[Result], markdown: bool = False) -> str:
    """Lists the results by kind of fault. A schedule counts for the kind of its first fault, an injected fault for its
    own."""
    injected = Counter(kind for result in results for kind in result.injected)
    head = (
        "first fault",
        "schedules",
        *TARGETS,
        "faults injected",
        "starts",
        "lost",
        "doubled",
        "wrong",
        "held",
        "s each",
    )
    rows: list[tuple[str, ...]] = [head]
    for kind in [*OF_A_HUNDRED, ""]:
        mine = [r for r in results if not kind or r.kind == kind]
        if mine:
            rows.append((kind or "all", *_row(mine, injected[kind] if kind else injected.total())))
    if markdown:
        rows.insert(1, ("---",) * len(head))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _row(results: Sequence[Result], injected: int) -> tuple[str, ...]:
    targets = [sum(r.target == target for r in results) for target in TARGETS]
    sums = [sum(getattr(r, name) for r in results) for name in ("starts", "lost", "doubled", "wrong")]
    held = sum(r.held() for r in results)
    seconds = sum(r.seconds for r in results) / len(results)
    return (*map("{:,}".format, (len(results), *targets, injected, *sums, held)), f"{seconds:.1f}")
