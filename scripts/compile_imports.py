"""Keeps the byte code of the packages that commands and jobs import, where PYTHONDONTWRITEBYTECODE forbids Python to.

Otherwise each process compiles them again, which takes 2.5 s of processor time for each start of a job. `setup_env.sh`
runs it. Where nothing is forbidden, the first run keeps the byte code.
"""

from __future__ import annotations

import compileall
import sys
import sysconfig
from pathlib import Path

from moneystate.cli.tree import Commands
from moneystate.spark.preload import MODULES, OF_ALL, preload


def main() -> None:
    list(Commands().values())  # imports them all
    preload((*MODULES, *OF_ALL))
    packages = Path(sysconfig.get_path("purelib"))
    files = {Path(file) for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    for file in files:
        if file.suffix == ".py" and packages in file.parents:
            compileall.compile_file(file, quiet=2)


if __name__ == "__main__":
    main()
