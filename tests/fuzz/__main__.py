"""Fuzzes for longer than the tests do: `python -m tests.fuzz [--examples N] [--target NAME] [--seed N]`."""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import sys
import time
import traceback

from tests.fuzz.all_targets import TARGETS

HANG_S = 60.0  # for one input; the process then ends with its stack
MEMORY_BYTES = 2 << 30  # a larger allocation fails


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=20_000, help="inputs for each target (default: %(default)s)")
    parser.add_argument("--target", action="append", help="only targets whose names contain this; repeatable")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the inputs (default: random)")
    parser.add_argument("--list", action="store_true", help="only print the names of the targets")
    given = parser.parse_args()
    chosen = [t for t in TARGETS.values() if not given.target or any(part in t.name for part in given.target)]
    if not chosen:
        parser.error(f"--target {given.target}: no such target; --list shows them")
    if given.list:
        print("\n".join(t.name for t in chosen))
        return 0
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    print(f"seed {given.seed}, {given.examples:,} examples", flush=True)
    failed = []
    for one in chosen:
        began = time.monotonic()
        try:
            one.run(given.examples, given.seed, lambda: faulthandler.dump_traceback_later(HANG_S, exit=True))
            outcome = "ok"
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            traceback.print_exc()
            failed.append(one.name)
            outcome = "FAILED"
        finally:
            faulthandler.cancel_dump_traceback_later()
        print(f"{one.name:<32} {outcome}  {time.monotonic() - began:6.1f} s", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else f"{len(chosen)} targets, no failure")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
