"""Commands for other processes: `python -m moneystate.devpostgres binaries | watch FOLDER`.

`binaries` prints the folder of the server's programs, and downloads them first if necessary (progress on stderr). The
set-up script calls it. An error is one line on stderr and exit code 3.

`watch` stops the server in FOLDER and removes the folder when the process that started it has ended. The starter has
the other end of this process's standard input and never writes to it. The pipe closes however the starter ends.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from moneystate.devpostgres import process
from moneystate.devpostgres.binaries import postgres_binaries
from moneystate.errors import SetupError


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["binaries"]:
                print(postgres_binaries(progress=lambda line: print(line, file=sys.stderr, flush=True)))
            case ["watch", folder]:
                sys.stdin.buffer.read()
                process.end(Path(folder) / "data", signal.SIGQUIT)
                shutil.rmtree(folder, ignore_errors=True)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
