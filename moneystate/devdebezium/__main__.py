"""Command for other processes: `python -m moneystate.devdebezium jars`.

It prints the folder of the jars, and downloads them first if necessary (progress on stderr). The set-up script calls
it. An error is one line on stderr and exit code 3.
"""

from __future__ import annotations

import sys

from moneystate.devdebezium.jars import debezium_jars
from moneystate.errors import SetupError


def main(arguments: list[str]) -> int:
    if arguments != ["jars"]:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(debezium_jars(progress=lambda line: print(line, file=sys.stderr, flush=True)))
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
