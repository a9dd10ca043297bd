"""Commands for other processes: `python -m moneystate.devbroker java | jars | watch DATA_DIR`.

`java` prints the Java that will be used. `jars` prints the folder of the broker's jars, and downloads them first if
necessary (progress on stderr). The set-up script calls both. An error is one line on stderr and exit code 3.

`watch` stops the server on DATA_DIR when the process that started it has ended. The starter has the other end of this
process's standard input and never writes to it. The pipe closes however the starter ends, even by SIGKILL, so an
aborted test run leaves no JVM behind.
"""

from __future__ import annotations

import sys
from pathlib import Path

from moneystate.devbroker.jars import kafka_jars
from moneystate.devbroker.java import find_java
from moneystate.devbroker.server_process import ServerProcess
from moneystate.errors import SetupError


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case ["java"]:
                print(find_java())
            case ["jars"]:
                print(kafka_jars(progress=lambda line: print(line, file=sys.stderr, flush=True)))
            case ["watch", data_dir]:
                sys.stdin.buffer.read()
                ServerProcess(Path(data_dir)).stop()
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
